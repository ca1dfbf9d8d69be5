import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.zip.CRC32;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.CloseableIterator;

/**
 * Reads a set of batches in each line of standard input, in hexadecimal digits, and prints what a consumer gets of it:
 * the number of records and the CRC-32 of all values, or "refused" and the reason.
 */
public class ReadBatches {
    public static void main(String[] words) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.append(read(HexFormat.of().parseHex(line))).append('\n');
        }
        System.out.print(out);
    }

    private static String read(byte[] bytes) {
        long count = 0;
        CRC32 checksum = new CRC32();
        try {
            for (RecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(bytes)).batches()) {
                batch.ensureValid();
                try (CloseableIterator<Record> records = batch.streamingIterator(BufferSupplier.create())) {
                    while (records.hasNext()) {
                        Record record = records.next();
                        record.ensureValid();
                        count++;
                        byte[] value = new byte[record.valueSize()];
                        record.value().get(value);
                        checksum.update(value);
                    }
                }
            }
        } catch (Throwable error) {
            return ("refused " + error + " " + error.getCause()).replace('\n', ' ');
        }
        return count + " " + checksum.getValue();
    }
}
