import java.io.File;
import org.eclipse.jgit.api.Git;
import org.eclipse.jgit.transport.PushResult;
import org.eclipse.jgit.transport.RefSpec;
import org.eclipse.jgit.transport.RemoteRefUpdate;

/** Push one ref by JGit: {@code WithJgit FOLDER URL SOURCE TARGET [force]}. */
public final class WithJgit {
    private WithJgit() {}

    public static void main(String[] words) throws Exception {
        boolean force = words.length > 4 && words[4].equals("force");
        int refused = 0;
        try (Git git = Git.open(new File(words[0]))) {
            RefSpec spec = new RefSpec(words[2] + ":" + words[3]).setForceUpdate(force);
            for (PushResult result : git.push().setRemote(words[1]).setRefSpecs(spec).call()) {
                System.err.print(result.getMessages());
                for (RemoteRefUpdate update : result.getRemoteUpdates()) {
                    boolean accepted = update.getStatus() == RemoteRefUpdate.Status.OK;
                    refused += accepted ? 0 : 1;
                    if (!accepted) {
                        System.err.println(update.getRemoteName() + ": " + update.getStatus() + ": " + update.getMessage());
                    }
                }
            }
        }
        System.exit(refused == 0 ? 0 : 1);
    }
}
