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

	/** What is done in a grant: to be alone there, and to be seen there. */
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

		void intrude() throws Exception {
			say(held.tryLock() == null ? "failed" : "intruding");
		}
	}

	private interface Recipe {
		/** Gets it, uses it, lets go. */
		void grant(int mostMs) throws Exception;

		void obey(String command) throws Exception;
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

	private static final class Lock implements Recipe {
		private final Mutex mutex;
		private final Resource resource;

		Lock(CuratorFramework client, String path, Resource resource) {
			mutex = new Mutex(client, path);
			this.resource = resource;
		}

		@Override
		public void grant(int mostMs) throws Exception {
			mutex.acquire();
			resource.use(sequence(mutex.node()), mutex.token(), mostMs);
			mutex.release();
		}

		@Override
		public void obey(String command) throws Exception {
			switch (command) {
			case "acquire":
				mutex.acquire();
				long now = System.nanoTime();
				say("held " + sequence(mutex.node()) + " " + mutex.token() + " " + now);
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
				throw new IllegalArgumentException(command);
			}
		}
	}

	private static final class Latch implements Recipe, LeaderLatchListener {
		private final CuratorFramework client;
		private final String path;
		private final String id;
		private final Resource resource;
		private LeaderLatch latch;

		Latch(CuratorFramework client, String path, String id, Resource resource) {
			this.client = client;
			this.path = path;
			this.id = id;
			this.resource = resource;
			latch = new LeaderLatch(client, path, id);
		}

		private long token() throws Exception {
			return client.checkExists().forPath(path).getCzxid() + sequence(latch.getLastPathIsLeader());
		}

		@Override
		public void grant(int mostMs) throws Exception {
			// One that was closed does not start again.
			latch = new LeaderLatch(client, path, id);
			latch.start();
			latch.await();
			resource.use(sequence(latch.getLastPathIsLeader()), token(), mostMs);
			latch.close();
		}

		@Override
		public void isLeader() {
			long now = System.nanoTime();
			say("elected " + sequence(latch.getLastPathIsLeader()) + " 0 " + now);
		}

		@Override
		public void notLeader() {
			long now = System.nanoTime();
			say("deposed " + now);
		}

		@Override
		public void obey(String command) throws Exception {
			switch (command) {
			case "start":
				// In the very thread that has just made it the leader.
				latch.addListener(this, Runnable::run);
				latch.start();
				say("started");
				break;
			case "close":
				latch.close();
				say("closed");
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
			default:
				throw new IllegalArgumentException(command);
			}
		}
	}

	private static volatile boolean stopping;

	private static void takeTurns(Recipe recipe, int mostMs) {
		try {
			while (!stopping) {
				recipe.grant(mostMs);
			}
			say("stopped");
		} catch (Exception e) {
			say("failed " + e);
			end(1);
		}
	}

	private static void obey(Recipe recipe, Resource resource, BufferedReader commands) throws Exception {
		Thread working = null;
		for (String line = commands.readLine(); line != null && !line.equals("quit"); line = commands.readLine()) {
			String[] words = line.split(" ");
			switch (words[0]) {
			case "grants":
				working = new Thread(() -> takeTurns(recipe, Integer.parseInt(words[1])));
				working.start();
				break;
			case "stop":
				stopping = true;
				working.join();
				break;
			case "intrude":
				resource.intrude();
				break;
			default:
				recipe.obey(words[0]);
			}
		}
	}

	public static void main(String[] arguments) {
		try {
			int sessionMs = Integer.parseInt(arguments[2]);
			CuratorFramework client = CuratorFrameworkFactory.builder()
				.connectString(arguments[1]).sessionTimeoutMs(sessionMs).connectionTimeoutMs(sessionMs)
				.retryPolicy(new RetryForever(100)).build();
			Resource resource = new Resource(arguments[5], arguments[4]);
			client.start();
			client.blockUntilConnected();
			Recipe recipe = arguments[0].equals("latch")
				? new Latch(client, arguments[3], arguments[4], resource)
				: new Lock(client, arguments[3], resource);
			say("ready " + ProcessHandle.current().pid());
			obey(recipe, resource, new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII)));
			client.close();
			end(0);
		} catch (Exception e) {
			say("failed " + e);
			end(1);
		}
	}
}
