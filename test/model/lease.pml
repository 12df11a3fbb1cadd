/* SPDX-License-Identifier: Apache-2.0 */
/* The rule of zklock/lease.c: a lease ends before the leader can give the session up. model.py runs it, and with parts of the
 * rule taken out.
 *
 * How to read it: time goes in steps of T/24, from the session's birth until END. In each of them the client may send a proof,
 * or hear of the one under way; its own pings bound the gap by T/3. The follower hears a packet at once, and once each
 * T/4, the most that tick/2 can be, tells the leader whether it has heard any; the leader counts T from when that arrives, up to
 * one step later. A proof that is forwarded to the leader touches nothing there.
 *
 *   LEASE   if the leader heard nothing more from now on, the session would still be there at the deadline
 *
 * What is left out, and why: stalls of the process, slow answers and a T that changes (the simulation has them); the choice
 * of margin and heartbeat (the deadline is at its latest without a margin); a proof that comes before the one that was sent
 * before it (requests of a session are carried out in order). Of older proofs, two are remembered: more could only be
 * older, and the newest that is old enough counts.
 *
 * How to add a rule: as in contender.pml. */
#ifndef END
#define END 20
#endif
#define T     24
#define DELAY (T / 4 + 1) /* report_delay() */
#define KEPT  2

byte now, touched;      /* touched: when the leader last heard of the session */
byte packet;            /* when the client last sent something */
bool heard;             /* by the follower, since its last report */
byte report, arrival;   /* when the next one is due; when one under way arrives, 0: none is */
byte under_way;         /* when the proof under way was sent; 0: none is */
byte sent[KEPT], replied[KEPT], pair, single, deadline;
hidden byte i, LEASE;
#define HOLDS(property, condition) assert(property || (condition))

inline send_packet() {
	packet = now;
	heard = true
}

/* zkl__lease_add_proof() of one that was sent at `at' and answered now, with the deadline that follows. */
inline add_proof(at) {
	for (i : 0 .. KEPT - 1) {
		if
#ifdef WITHOUT_REPORTS /* those of followers are forgotten */
		:: replied[i] && sent[i] > pair && replied[i] <= at -> pair = sent[i]
#else
		:: replied[i] && sent[i] > pair && replied[i] + DELAY <= at -> pair = sent[i]
#endif
		:: else
		fi
	}
	single = at;
	for (i : 0 .. KEPT - 2) {
		sent[i] = sent[i + 1];
		replied[i] = replied[i + 1]
	}
	sent[KEPT - 1] = at;
	replied[KEPT - 1] = now;
#ifdef REPLY_TIME /* in place of the time of sending */
	sent[KEPT - 1] = now;
	single = now;
#endif
	deadline = single + T * 3 / 8;
	if
	:: pair && pair + T - T / 24 > deadline -> deadline = pair + T - T / 24
	:: else
	fi;
#ifdef ONE_PROOF /* in place of two */
	deadline = single + T - T * 3 / 8;
#endif
	at = 0
}

inline follow() {
	if
	:: arrival == now -> touched = now; arrival = 0
	:: else
	fi
}

init {
	atomic {
		now = 1;
		touched = 1;
		packet = 1;
		/* The phase of the follower's reports. */
		report = 2;
		do
		:: report <= T / 4 -> report++
		:: break
		od
	}
	do
	:: atomic { now < END ->
		now++;
		follow();
		if
		:: under_way -> d_step { add_proof(under_way); skip }
		:: true
		fi;
		if
		:: !under_way -> under_way = now; send_packet()
		:: now - packet < T / 3
		:: now - packet >= T / 3 -> send_packet()
		fi;
		if
		:: report == now && heard && !arrival ->
			heard = false;
			if
			:: touched = now
			:: arrival = now + 1
			fi
		:: else
		fi;
		if
		:: report == now -> report = now + T / 4
		:: else
		fi;
		HOLDS(LEASE, deadline <= touched + T)
	   }
	:: now == END -> break
	od
}
