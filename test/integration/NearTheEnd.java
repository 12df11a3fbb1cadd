// SPDX-License-Identifier: Apache-2.0
import java.io.File;
import java.util.Collections;
import java.util.List;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.server.DataTree;
import org.apache.zookeeper.server.persistence.FileSnap;

/**
 * Writes a snapshot of a server with directories whose sequence numbers are almost used up, which no client can bring about:
 * NearTheEnd FOLDER NEXT. Below /end and below /closed (where only its creator, who is nobody, may delete) there are the
 * directories 0, 1, ..., the next child of each of which gets the number NEXT; below /last it gets the last one that there is.
 */
public final class NearTheEnd {
    private static final int OPEN = 150;
    private static final int CLOSED = 5;
    /** Later than any token: the birth of a directory and its number. */
    private static final long NEWEST = 9L << 32;

    private static long zxid = 1L << 32;

    private static void make(DataTree tree, String path, List<ACL> acl) throws Exception {
        tree.createNode(path, new byte[0], acl, 0, -1, ++zxid, 1);
    }

    private static void fill(DataTree tree, String parent, int count, int next) throws Exception {
        for (int i = 0; i < count; i++) {
            String path = parent + "/" + i;
            make(tree, path, Ids.OPEN_ACL_UNSAFE);
            tree.getNode(path).stat.setCversion(next);
        }
    }

    public static void main(String[] args) throws Exception {
        int next = Integer.parseInt(args[1]);
        DataTree tree = new DataTree();
        List<ACL> closed = Collections.singletonList(new ACL(Perms.READ | Perms.CREATE, Ids.ANYONE_ID_UNSAFE));
        make(tree, "/end", Ids.OPEN_ACL_UNSAFE);
        make(tree, "/closed", closed);
        make(tree, "/last", Ids.OPEN_ACL_UNSAFE);
        fill(tree, "/end", OPEN, next);
        fill(tree, "/closed", CLOSED, next);
        fill(tree, "/last", 1, Integer.MAX_VALUE);
        tree.lastProcessedZxid = NEWEST;
        new File(args[0]).mkdirs();
        new FileSnap(new File(args[0])).serialize(tree, Collections.emptyMap(),
                new File(args[0], "snapshot." + Long.toHexString(NEWEST)), true);
        System.exit(0);
    }
}
