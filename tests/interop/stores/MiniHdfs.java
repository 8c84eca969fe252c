import java.util.concurrent.CountDownLatch;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** An HDFS of one namenode and one datanode on loopback, until the process is ended: directory, HTTP port. */
public final class MiniHdfs {
    private MiniHdfs() {}

    public static void main(String[] arguments) throws Exception {
        Configuration configuration = new Configuration();
        configuration.set("hdfs.minidfs.basedir", arguments[0]);
        MiniDFSCluster cluster =
                new MiniDFSCluster.Builder(configuration)
                        .numDataNodes(1)
                        .nameNodeHttpPort(Integer.parseInt(arguments[1]))
                        .build();
        cluster.waitActive();
        FileSystem files = cluster.getFileSystem();
        files.mkdirs(new Path("/open"));
        files.setPermission(new Path("/open"), new FsPermission((short) 0777));
        new CountDownLatch(1).await();
    }
}
