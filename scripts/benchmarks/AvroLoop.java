import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.DecoderFactory;

/**
 * Decodes values in a loop as KafkaAvroDeserializer does, without its look-up of the schema: the floor of every
 * deserializer in Java. Arguments: a schema, and a file of values, each with its size in front. For each line of the
 * input it decodes all of them once, and prints seconds and count.
 */
final class AvroLoop {
    private static final int ID_BYTES = 5;

    public static void main(String[] arguments) throws IOException {
        Schema schema = new Schema.Parser().parse(Files.readString(Path.of(arguments[0])));
        byte[][] values = values(Path.of(arguments[1]));
        GenericDatumReader<Object> reader = new GenericDatumReader<>(schema);
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        BinaryDecoder decoder = null;
        while (orders.readLine() != null) {
            long start = System.nanoTime();
            int count = 0;
            for (byte[] value : values) {
                decoder = DecoderFactory.get().binaryDecoder(value, ID_BYTES, value.length - ID_BYTES, decoder);
                count += reader.read(null, decoder) == null ? 0 : 1;
            }
            System.out.println((System.nanoTime() - start) / 1e9 + " " + count);
        }
    }

    private static byte[][] values(Path path) throws IOException {
        ByteBuffer left = ByteBuffer.wrap(Files.readAllBytes(path));
        byte[][] values = new byte[left.getInt()][];
        for (int number = 0; number < values.length; number++) {
            values[number] = new byte[left.getInt()];
            left.get(values[number]);
        }
        return values;
    }
}
