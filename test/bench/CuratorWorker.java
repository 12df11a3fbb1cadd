// SPDX-License-Identifier: Apache-2.0

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.StringJoiner;
import java.util.concurrent.locks.LockSupport;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryForever;

/** Apache Curator as worker.c: CuratorWorker lock|election SERVERS SESSION_MS. */
public final class CuratorWorker {
	/** Of one thread at a time. */
	private interface Contender {
		void acquire() throws Exception;

		void release() throws Exception;
	}

	private static final class Lock implements Contender {
		private final InterProcessMutex mutex;

		Lock(CuratorFramework client, String path) {
			mutex = new InterProcessMutex(client, path);
		}

		@Override
		public void acquire() throws Exception {
			mutex.acquire();
		}

		@Override
		public void release() throws Exception {
			mutex.release();
		}
	}

	/** One that was closed does not start again. */
	private static final class Election implements Contender {
		private final CuratorFramework client;
		private final String path;
		private LeaderLatch latch;

		Election(CuratorFramework client, String path) {
			this.client = client;
			this.path = path;
		}

		@Override
		public void acquire() throws Exception {
			latch = new LeaderLatch(client, path);
			latch.start();
			latch.await();
		}

		@Override
		public void release() throws Exception {
			latch.close();
		}
	}

	private final CuratorFramework client;
	private final boolean isElection;
	private Contender holder;

	private CuratorWorker(CuratorFramework client, boolean isElection) {
		this.client = client;
		this.isElection = isElection;
	}

	private Contender join(String path) {
		return isElection ? new Election(client, path) : new Lock(client, path);
	}

	private static void die(Exception e) {
		System.err.println("CuratorWorker: " + e);
		Runtime.getRuntime().halt(1);
	}

	private String cycles(String path, int count) throws Exception {
		Contender contender = join(path);
		StringJoiner times = new StringJoiner(" ", "cycles ", "");
		for (int i = 0; i < count; i++) {
			long began = System.nanoTime();
			contender.acquire();
			long held = System.nanoTime();
			contender.release();
			long released = System.nanoTime();
			times.add(held - began + " " + (released - held));
		}
		return times.toString();
	}

	private void takeTurns(String path, int holdUs, long[] turns, int from, int to) {
		try {
			Contender contender = join(path);
			for (int i = from; i < to; i += 2) {
				contender.acquire();
				turns[i] = System.nanoTime();
				if (holdUs > 0) {
					LockSupport.parkNanos(holdUs * 1000L);
				}
				turns[i + 1] = System.nanoTime();
				contender.release();
			}
		} catch (Exception e) {
			die(e);
		}
	}

	private String queue(String path, int count, int holdUs, int rounds) throws Exception {
		long[] turns = new long[2 * count * rounds];
		Thread[] threads = new Thread[count];
		for (int i = 0; i < count; i++) {
			int from = 2 * i * rounds;
			threads[i] = new Thread(null, () -> takeTurns(path, holdUs, turns, from, from + 2 * rounds), "waiter", 1 << 18);
			threads[i].start();
		}
		StringJoiner all = new StringJoiner(" ", "turns ", "");
		for (Thread thread : threads) {
			thread.join();
		}
		for (long each : turns) {
			all.add(Long.toString(each));
		}
		return all.toString();
	}

	private String hold(String path) throws Exception {
		holder = join(path);
		holder.acquire();
		return "held " + System.nanoTime();
	}

	private String release() throws Exception {
		long began = System.nanoTime();
		holder.release();
		return "released " + began;
	}

	private String obey(String[] words) throws Exception {
		switch (words[0]) {
		case "cycles":
			return cycles(words[1], Integer.parseInt(words[2]));
		case "queue":
			return queue(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]), Integer.parseInt(words[4]));
		case "hold":
			return hold(words[1]);
		case "release":
			return release();
		default:
			throw new IllegalArgumentException(words[0]);
		}
	}

	public static void main(String[] arguments) {
		try {
			int sessionMs = Integer.parseInt(arguments[2]);
			CuratorFramework client = CuratorFrameworkFactory.builder()
				.connectString(arguments[1]).sessionTimeoutMs(sessionMs).connectionTimeoutMs(sessionMs)
				.retryPolicy(new RetryForever(100)).build();
			client.start();
			client.blockUntilConnected();
			CuratorWorker worker = new CuratorWorker(client, arguments[0].equals("election"));
			System.out.println("ready");
			BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
			for (String line = commands.readLine(); line != null; line = commands.readLine()) {
				System.out.println(worker.obey(line.split(" ")));
			}
			client.close();
			Runtime.getRuntime().halt(0);
		} catch (Exception e) {
			die(e);
		}
	}
}
