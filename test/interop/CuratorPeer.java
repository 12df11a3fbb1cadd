// SPDX-License-Identifier: Apache-2.0

import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.recipes.leader.Participant;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryForever;

/**
 * Apache Curator as a contender: CuratorPeer lock|latch SERVERS SESSION_MS PATH ID FOLDER.
 *
 * Commands come as lines on standard input, answers and events go as lines to standard output; peers.py has the
 * list. Moments are System.nanoTime(), which is CLOCK_MONOTONIC. The end of standard input is the end.
 */
public final class CuratorPeer {
	private static synchronized void say(String line) {
		System.out.println(line);
		System.out.flush();
	}

	private static void end(int status) {
		Runtime.getRuntime().halt(status);
	}

	private static long sequence(String path) {
		return Long.parseLong(path.substring(path.length() - 10));
	}

	/** What is done under the lock: to be alone there, and to be seen there. */
	private static final class Resource {
		private final FileChannel held;
		private final FileOutputStream log;
		private final String id;

		Resource(String folder, String id) throws Exception {
			held = FileChannel.open(Path.of(folder, "held"), StandardOpenOption.WRITE, StandardOpenOption.CREATE);
			log = new FileOutputStream(Path.of(folder, "grants").toFile(), true);
			this.id = id;
		}

		/** The record lock is the kernel's: it goes with its process, whatever ends that. */
		void use(long sequence, long token, int mostMs) throws Exception {
			FileLock alone = held.tryLock();
			if (alone == null) {
				say("overlap " + sequence + " " + token);
				end(3);
			}
			log.write((id + " " + sequence + " " + token + "\n").getBytes(StandardCharsets.US_ASCII));
			Thread.sleep(ThreadLocalRandom.current().nextInt(mostMs + 1));
			alone.release();
		}
	}

	private static final class Mutex extends InterProcessMutex {
		private final CuratorFramework client;
		private final String path;

		Mutex(CuratorFramework client, String path) {
			super(client, path);
			this.client = client;
			this.path = path;
		}

		/** The path of the node by which this thread holds. */
		String node() {
			return getLockPath();
		}

		/** zklock's: counted on from the birth of the directory, which stays while somebody holds. */
		long token() throws Exception {
			return client.checkExists().forPath(path).getCzxid() + sequence(node());
		}

		String holder() throws Exception {
			for (String each : getParticipantNodes()) {
				return new String(client.getData().forPath(each), StandardCharsets.UTF_8).replace('\n', '|');
			}
			return "nobody";
		}
	}

	private static final class LockPeer {
		private final Mutex mutex;
		private final Resource resource;
		private volatile boolean stopping;
		private Thread working;

		LockPeer(CuratorFramework client, String path, String id, String folder) throws Exception {
			mutex = new Mutex(client, path);
			resource = new Resource(folder, id);
		}

		private void grants(int mostMs) {
			try {
				while (!stopping) {
					mutex.acquire();
					resource.use(sequence(mutex.node()), mutex.token(), mostMs);
					mutex.release();
				}
				say("stopped");
			} catch (Exception e) {
				say("failed " + e);
				end(1);
			}
		}

		void obey(String[] words) throws Exception {
			switch (words[0]) {
			case "grants":
				working = new Thread(() -> grants(Integer.parseInt(words[1])));
				working.start();
				break;
			case "stop":
				stopping = true;
				working.join();
				break;
			case "acquire":
				mutex.acquire();
				say("held " + sequence(mutex.node()) + " " + mutex.token() + " " + System.nanoTime());
				break;
			case "release":
				mutex.release();
				say("released");
				break;
			case "participants":
				say("participants " + mutex.getParticipantNodes().size());
				break;
			case "holder":
				say("holder " + mutex.holder());
				break;
			default:
				throw new IllegalArgumentException(words[0]);
			}
		}
	}

	private static final class LatchPeer implements LeaderLatchListener {
		private final LeaderLatch latch;

		LatchPeer(CuratorFramework client, String path, String id) {
			latch = new LeaderLatch(client, path, id);
			// In the very thread that has just made it the leader.
			latch.addListener(this, Runnable::run);
		}

		@Override
		public void isLeader() {
			long now = System.nanoTime();
			say("elected " + now);
		}

		@Override
		public void notLeader() {
			long now = System.nanoTime();
			say("deposed " + now);
		}

		void obey(String[] words) throws Exception {
			switch (words[0]) {
			case "start":
				latch.start();
				say("started");
				break;
			case "participants":
				List<String> all = new ArrayList<>();
				for (Participant each : latch.getParticipants()) {
					all.add(each.getId());
				}
				say("participants " + String.join(" ", all));
				break;
			case "leader":
				Participant leader = latch.getLeader();
				say("leader " + (leader.isLeader() ? leader.getId() : "nobody"));
				break;
			case "epoch":
				say("epoch " + sequence(latch.getLastPathIsLeader()));
				break;
			case "close":
				latch.close();
				say("closed");
				break;
			default:
				throw new IllegalArgumentException(words[0]);
			}
		}
	}

	private interface Peer {
		void obey(String[] words) throws Exception;
	}

	public static void main(String[] arguments) {
		try {
			int sessionMs = Integer.parseInt(arguments[2]);
			CuratorFramework client = CuratorFrameworkFactory.builder()
				.connectString(arguments[1]).sessionTimeoutMs(sessionMs).connectionTimeoutMs(sessionMs)
				.retryPolicy(new RetryForever(100)).build();
			client.start();
			client.blockUntilConnected();
			Peer peer = arguments[0].equals("latch")
				? new LatchPeer(client, arguments[3], arguments[4])::obey
				: new LockPeer(client, arguments[3], arguments[4], arguments[5])::obey;
			say("ready " + ProcessHandle.current().pid());
			BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
			for (String line = commands.readLine(); line != null; line = commands.readLine()) {
				if (line.equals("quit")) {
					client.close();
					break;
				}
				peer.obey(line.split(" "));
			}
			end(0);
		} catch (Exception e) {
			say("failed " + e);
			end(1);
		}
	}
}
