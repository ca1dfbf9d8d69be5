import java.util.ArrayList;
import java.util.List;
import java.util.Scanner;
import org.apache.kafka.coordinator.share.PersisterStateBatchCombiner;
import org.apache.kafka.server.share.persister.PersisterStateBatch;

/**
 * Reads cases from standard input and prints what Kafka combines of them, a line each.
 * A case: start offset, number of batches so far, number of new batches; then for each batch
 * first offset, last offset, delivery state, delivery count.
 */
public class CombineStateBatches {
    public static void main(String[] words) {
        Scanner in = new Scanner(System.in);
        StringBuilder out = new StringBuilder();
        while (in.hasNextLong()) {
            long start = in.nextLong();
            int before = in.nextInt();
            int added = in.nextInt();
            List<PersisterStateBatch> soFar = read(in, before);
            List<PersisterStateBatch> found =
                new PersisterStateBatchCombiner(soFar, read(in, added), start).combineStateBatches();
            for (PersisterStateBatch batch : found) {
                out.append(batch.firstOffset()).append(' ').append(batch.lastOffset()).append(' ');
                out.append(batch.deliveryState()).append(' ').append(batch.deliveryCount()).append(' ');
            }
            out.append('\n');
        }
        System.out.print(out);
    }

    private static List<PersisterStateBatch> read(Scanner in, int count) {
        List<PersisterStateBatch> batches = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            batches.add(new PersisterStateBatch(in.nextLong(), in.nextLong(), in.nextByte(), in.nextShort()));
        }
        return batches;
    }
}
