/* SPDX-License-Identifier: Apache-2.0 */
/* The lease in numbers. T is 24 s, so that the margins are whole seconds: T/24 = 1, T/12 = 2, T/6 = 4, T/4 = 6, T/3 = 8,
 * 3T/8 = 9, 5T/8 = 15. Where the tick is unknown, a pair is 7 s apart: tick/2 + T/24. */
#include "check.h"

#include "lease.h"

#define NS  INT64_C(1000000000)
#define DAY 86400

static struct zkl__lease lease;
/* The clock does not begin at 0, which stands for "none". */
static const double epoch = 1000;

static int64_t ns(double seconds)
{
	return (int64_t)(seconds * 1e6 + 0.5) * 1000;
}

static void begin_with(double margin, double heartbeat, double tick)
{
	struct zkl__lease_options options = {ns(margin), ns(heartbeat), ns(tick)};

	zkl__lease_begin(&lease, &options);
	zkl__lease_set_timeout(&lease, ns(24));
	zkl__lease_wake(&lease, ns(epoch));
}

static void begin(void)
{
	begin_with(0, 0, 0);
}

/* Sent and answered at these times. */
static void proof(double sent, double replied)
{
	zkl__lease_add_proof(&lease, ns(epoch + sent), ns(epoch + replied));
	zkl__lease_note_wait(&lease, ns(epoch + sent), ns(epoch + replied));
}

static void beats(double from, double to, double each)
{
	for (double at = from; at <= to; at += each)
		proof(at, at + 0.01);
}

static double deadline(void)
{
	int64_t at = zkl__lease_deadline(&lease);

	return at ? (double)(at - ns(epoch)) / 1e9 : -1;
}

static bool check_seconds(double actual, double expected, const char *what, int line)
{
	char text[160];

	snprintf(text, sizeof text, "%s is %.6f, not %.6f", what, actual, expected);
	return check_that(actual > expected - 1e-6 && actual < expected + 1e-6, text, __FILE__, line);
}

#define CHECK_SECONDS(actual, expected) check_seconds(actual, expected, #actual, __LINE__)

/* ---- one proof ------------------------------------------------------------------------------------------------------------ */

static void no_proof_is_no_lease(void)
{
	begin();
	CHECK_INT(zkl__lease_deadline(&lease), 0);
}

static void first_proof_of_an_idle_session_is_worth_three_eighths(void)
{
	begin();
	proof(0, 0.01);
	CHECK_SECONDS(deadline(), 9);
}

static void time_runs_from_the_send_and_not_from_the_reply(void)
{
	begin();
	proof(0, 8.5);
	CHECK_SECONDS(deadline(), 9);
}

static void flow_without_gaps_moves_the_deadline_on_before_the_first_pair(void)
{
	begin();
	proof(0, 0.01);
	proof(2, 2.01);
	CHECK_SECONDS(deadline(), 11);
	proof(6.9, 6.91);
	CHECK_SECONDS(deadline(), 15.9);
}

/* ---- pairs ------------------------------------------------------------------------------------------------------------------ */

static void pair_is_worth_twenty_three_twenty_fourths_of_its_first(void)
{
	begin();
	proof(0, 0.5);
	proof(7.5, 7.6);
	/* from the pair 0 + 23, from the newest alone 7.5 + 9, and never more than 7.5 + 15 */
	CHECK_SECONDS(deadline(), 22.5);
	begin();
	proof(0, 0.5);
	proof(8.5, 8.6); /* a gap of more than T/3 */
	CHECK_SECONDS(deadline(), 23);
}

static void pair_needs_its_first_answered_seven_seconds_before_the_second_is_sent(void)
{
	begin();
	proof(0, 1.001);
	proof(8.001, 8.002);
	CHECK_SECONDS(deadline(), 23);
	begin();
	proof(0, 1.002);
	proof(8.001, 8.002);
	CHECK_SECONDS(deadline(), 9);
}

static void tick_that_is_known_makes_pairs_of_nearer_proofs(void)
{
	begin_with(0, 0, 2); /* tick/2 + T/24 = 2 s */
	proof(0, 0.1);
	zkl__lease_add_proof(&lease, ns(epoch + 2.1), ns(epoch + 2.2));
	CHECK_SECONDS(deadline(), 17.1); /* the cap: 2.1 + 15 */
	begin_with(0, 0, 2);
	proof(0, 0.1);
	proof(2.0, 2.1);
	CHECK_SECONDS(deadline(), 11);
}

static void tick_larger_than_the_session_can_have_is_taken_as_half_the_timeout(void)
{
	begin_with(0, 0, 20);
	proof(0, 0.5);
	proof(7.5, 7.6);
	CHECK_SECONDS(deadline(), 22.5);
}

static void steady_state_is_five_eighths_after_the_newest_proof(void)
{
	begin();
	beats(0, 40, 4);
	CHECK_SECONDS(deadline(), 40 + 15);
	begin_with(0, 8, 0); /* T/3: the same lease */
	beats(0, 40, 8);
	CHECK_SECONDS(deadline(), 40 + 15);
	begin_with(0, 2, 0); /* T/12 gains nothing */
	beats(0, 40, 2);
	CHECK_SECONDS(deadline(), 40 + 15);
	begin_with(6, 2, 2); /* but with a smaller margin and a known tick */
	beats(0, 40, 2);
	CHECK_SECONDS(deadline(), 40 + 18);
}

static void margin_that_is_asked_for_shortens_the_lease(void)
{
	begin_with(12, 0, 0);
	beats(0, 40, 4);
	CHECK_SECONDS(deadline(), 40 + 12);
	begin_with(15, 0, 0);
	proof(0, 0.01);
	CHECK_SECONDS(deadline(), 9);
}

static void margin_never_becomes_smaller_than_the_least_when_the_servers_shorten_the_timeout(void)
{
	begin_with(9, 4, 0);
	beats(0, 40, 4);
	zkl__lease_set_timeout(&lease, ns(12));
	/* 4 s of heartbeat at T = 12: one beat for the 3.5 s of report, and T/24 = 0.5. The margin asked for is more. */
	CHECK(deadline() <= 40 + 12 - 9);
	begin_with(9, 4, 0);
	zkl__lease_set_timeout(&lease, ns(14));
	beats(0, 40, 4);
	/* 14/4 + 14/24 = 4.08 s are two beats: 8 + 14/24 */
	CHECK(deadline() <= 40 + 14 - 9);
}

/* ---- stalls ------------------------------------------------------------------------------------------------------------------- */

static void after_a_stall_only_pairs_count(void)
{
	begin();
	beats(0, 20, 4);
	CHECK_SECONDS(deadline(), 35);
	proof(34, 34.01); /* 14 s after the last one: what the leader knows may be older than that */
	CHECK_SECONDS(deadline(), 20 + 23);
	proof(36, 36.01);
	proof(38, 38.01);
	proof(40, 40.01);
	CHECK_SECONDS(deadline(), 20 + 23);
	proof(42, 42.01);
	CHECK_SECONDS(deadline(), 42 + 15); /* 34 and 42 are a pair: 34 + 23 */
}

static void gap_of_a_third_is_no_stall_and_more_is(void)
{
	begin();
	proof(0, 2); /* answered so late that no pair comes of it */
	proof(8, 8.01);
	CHECK_SECONDS(deadline(), 17);
	begin();
	proof(0, 2);
	proof(8.001, 8.01);
	CHECK_SECONDS(deadline(), 9);
}

/* Then what the leader has heard of behind the stall is old enough to be in a report. */
static void after_a_stall_one_proof_counts_when_proofs_have_flowed_for_the_time_of_a_report(void)
{
	begin();
	proof(0, 9);
	proof(9, 16.5); /* 9 s later; and replies so late that no pairs come of them */
	CHECK_SECONDS(deadline(), 9);
	proof(15.9, 16.5);
	CHECK_SECONDS(deadline(), 9);
	proof(16, 16.5);
	CHECK_SECONDS(deadline(), 25);
}

static void answer_that_takes_more_than_a_third_is_a_gap_too(void)
{
	begin();
	proof(0, 8.5); /* a client that waits for an answer does not ping */
	proof(8, 9.6);
	CHECK_SECONDS(deadline(), 9);
	proof(15.6, 23);
	CHECK_SECONDS(deadline(), 23); /* only by the pair (0, 15.6) */
	proof(20, 27);
	proof(23.4, 27);
	CHECK_SECONDS(deadline(), 8 + 23);
	proof(23.6, 27); /* the time of a report after 8.5 and a third */
	CHECK_SECONDS(deadline(), 32.6);
}

/* ---- rest ---------------------------------------------------------------------------------------------------------------------- */

static void rest(double at)
{
	zkl__lease_rest(&lease, ns(epoch + at));
}

static void wake(double at)
{
	zkl__lease_wake(&lease, ns(epoch + at));
}

static void after_a_rest_one_proof_counts_again(void)
{
	begin();
	beats(0, 20, 4);
	rest(21);
	proof(200, 200.01);
	CHECK_SECONDS(deadline(), 209);
}

static void rest_does_not_forget_a_stall_before_it(void)
{
	begin();
	beats(0, 20, 4);
	proof(36, 36.01); /* 16 s */
	rest(36.1);       /* released, and at once taken again */
	proof(36.1, 36.2);
	CHECK_SECONDS(deadline(), 20 + 23);
	wake(36.2);
	proof(38, 38.01);
	CHECK_SECONDS(deadline(), 20 + 23);
	begin();
	beats(0, 20, 4);
	rest(36); /* released before any proof came */
	proof(36, 36.2);
	CHECK_SECONDS(deadline(), 20 + 23);
	/* and long after it one proof will do */
	proof(50, 50.1);
	CHECK_SECONDS(deadline(), 36 + 23);
	proof(200, 200.1);
	CHECK_SECONDS(deadline(), 209);
}

static void stall_right_behind_the_first_grant_is_seen(void)
{
	begin_with(0, 0, 0);
	rest(0);
	proof(0, 7.5); /* answered too late for a pair */
	wake(7.6);
	proof(15.5, 15.6); /* stalled for 7.9 s, 15.5 s without a packet */
	CHECK_SECONDS(deadline(), 23);
	begin();
	rest(0);
	proof(0, 0.01);
	wake(0.02);
	proof(6.9, 6.91);
	CHECK_SECONDS(deadline(), 15.9);
}

static void heartbeat_of_who_becomes_next_after_a_long_rest_counts_alone(void)
{
	begin();
	rest(0);
	proof(0, 0.01);
	wake(500);
	proof(500, 500.01);
	CHECK_SECONDS(deadline(), 509);
	proof(508.1, 508.2); /* and from then on the heartbeats must flow */
	CHECK_SECONDS(deadline(), 500 + 23);
}

/* ---- T --------------------------------------------------------------------------------------------------------------------------- */

static void shorter_timeout_applies_to_old_proofs(void)
{
	begin();
	beats(0, 40, 4);
	zkl__lease_set_timeout(&lease, ns(12));
	/* from the pair 32 + 11.5, from the newest alone 40 + 4.5 */
	CHECK_SECONDS(deadline(), 44.5);
	zkl__lease_set_timeout(&lease, ns(24)); /* the least of the session's life stays */
	CHECK_SECONDS(deadline(), 44.5);
}

/* The client pings by the timeout that its present server granted, the leader may count by the least. */
static void one_proof_does_not_count_while_the_pings_come_by_a_longer_timeout(void)
{
	begin();
	zkl__lease_set_timeout(&lease, ns(72));
	proof(0, 0.01);
	CHECK(deadline() < 0);
	proof(7.1, 7.2);
	CHECK_SECONDS(deadline(), 7.1 + 15);
	zkl__lease_set_timeout(&lease, ns(24));
	proof(100, 100.1);
	CHECK_SECONDS(deadline(), 7.1 + 23);
	proof(104, 107.1);
	proof(107, 107.1);
	CHECK_SECONDS(deadline(), 116);
}

static void new_session_has_neither_lease_nor_timeout(void)
{
	struct zkl__lease_options options = {0};

	begin();
	beats(0, 40, 4);
	zkl__lease_begin(&lease, &options);
	CHECK_INT(zkl__lease_deadline(&lease), 0);
	zkl__lease_set_timeout(&lease, ns(48));
	proof(0, 0.01);
	CHECK_SECONDS(deadline(), 18);
}

static void begin_may_take_the_options_that_the_lease_has(void)
{
	begin_with(12, 4, 2);
	zkl__lease_begin(&lease, &lease.options);
	zkl__lease_set_timeout(&lease, ns(24));
	CHECK_INT(lease.options.margin_ns, ns(12));
	beats(0, 40, 4);
	CHECK_SECONDS(deadline(), 40 + 12);
}

/* ---- replies in any order, bursts -------------------------------------------------------------------------------------------------- */

static void older_proof_that_is_answered_later_takes_nothing_away(void)
{
	begin();
	proof(0, 0.01);
	proof(4, 4.01);
	proof(2, 4.5);
	CHECK_SECONDS(deadline(), 13);
	proof(8, 8.01);
	CHECK_SECONDS(deadline(), 23);
}

/* Creates of many locks at once must not push the first proof of a pair out of the ring. */
static void burst_of_proofs_keeps_the_older_ones(void)
{
	begin();
	proof(0, 0.01);
	for (int i = 0; i < 1000; i++)
		proof(4 + i * 0.0005, 4.01 + i * 0.0005);
	proof(7.5, 7.51);
	CHECK_SECONDS(deadline(), 7.5 + 15); /* (0, 7.5) is a pair: 23, but for the cap */
	begin();
	for (int i = 0; i < 4000; i++) /* 20 s of a proof each 5 ms */
		proof(i * 0.005, i * 0.005 + 0.002);
	CHECK(deadline() > 20 + 15 - 1.1 && deadline() <= 20 + 15);
}

static void two_proofs_sent_at_once_count_as_one(void)
{
	begin();
	proof(0, 0.01);
	proof(0, 0.02);
	CHECK_SECONDS(deadline(), 9);
	proof(8, 8.01);
	proof(8, 8.01);
	CHECK_SECONDS(deadline(), 23);
}

/* ---- heartbeat ---------------------------------------------------------------------------------------------------------------------- */

static void heartbeat_is_quick_until_the_first_pair(void)
{
	begin();
	proof(0, 0.01);
	CHECK_INT(zkl__lease_beat_interval(&lease, 0), ns(2));
	proof(2, 2.01);
	proof(4, 4.01);
	proof(6, 6.01);
	CHECK_INT(zkl__lease_beat_interval(&lease, 0), ns(2));
	proof(8, 8.01);
	CHECK_INT(zkl__lease_beat_interval(&lease, 0), ns(4));
	proof(12, 12.01);
	CHECK_INT(zkl__lease_beat_interval(&lease, 0), ns(4));
	proof(30, 30.01); /* after a stall the newest pair is too old */
	CHECK_INT(zkl__lease_beat_interval(&lease, 0), ns(2));
	proof(38, 38.01);
	CHECK_INT(zkl__lease_beat_interval(&lease, 0), ns(4));
}

static void heartbeat_that_is_asked_for_is_kept(void)
{
	begin_with(0, 1, 0);
	proof(0, 0.01);
	CHECK_INT(zkl__lease_beat_interval(&lease, 0), ns(1));
	beats(1, 20, 1);
	CHECK_INT(zkl__lease_beat_interval(&lease, 0), ns(1));
	begin_with(0, 8, 0);
	proof(0, 0.01);
	CHECK_INT(zkl__lease_beat_interval(&lease, 0), ns(2));
	proof(8, 8.01);
	CHECK_INT(zkl__lease_beat_interval(&lease, 0), ns(8));
}

/* The clock of the leases counts from there: "no pair" is not one of a moment ago. */
static void heartbeat_is_quick_on_a_machine_that_has_just_booted(void)
{
	begin();
	zkl__lease_add_proof(&lease, ns(1), ns(1.01));
	CHECK_INT(zkl__lease_beat_interval(&lease, 0), ns(2));
}

static void heartbeat_is_quick_where_the_next_one_would_come_after_the_stop(void)
{
	begin_with(0, 8, 0);
	proof(0, 0.01);
	proof(11, 11.01);
	CHECK_SECONDS(deadline(), 23);
	CHECK_INT(zkl__lease_beat_interval(&lease, 0), ns(8)); /* at 19, answered by 20 */
	CHECK_INT(zkl__lease_beat_interval(&lease, ns(3)), ns(8));
	CHECK_INT(zkl__lease_beat_interval(&lease, ns(3.1)), ns(2));
}

/* Between a stall's end and the report of it no proof is worth more. A heartbeat of shortly before that would keep the next
 * one, which is sent when it is answered, from being answered in time. */
static void heartbeat_waits_until_it_is_worth_more_where_the_one_after_it_would_be_too_late(void)
{
	static const struct {
		double newest, interval;
	} cases[] = {
		{18.9, 2},   /* at 20.9, answered by 21.9: the one after it can be sent at 22 */
		{19.2, 2.8}, /* at 22, answered by 23 */
		{19.8, 2.2}, {20.2, 1.8}, {20.9, 1.1},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		begin();
		proof(0.1, 0.2);
		proof(15, 15.75);
		proof(cases[i].newest - 2, cases[i].newest - 1.25);
		proof(cases[i].newest, cases[i].newest + 0.75);
		CHECK_SECONDS(deadline(), 23.1);
		CHECK_INT(zkl__lease_beat_interval(&lease, 0), ns(cases[i].interval));
	}
	/* With more time it keeps its pace. */
	begin();
	proof(2.1, 2.2);
	proof(15, 15.75);
	proof(19.8, 20.55);
	CHECK_SECONDS(deadline(), 25.1);
	CHECK_INT(zkl__lease_beat_interval(&lease, 0), ns(2));
}

/* ---- does it last? ---------------------------------------------------------------------------------------------------------------- */

static bool lasts(double now, double beat, double stop)
{
	return zkl__lease_lasts(&lease, ns(epoch + now), ns(epoch + beat), ns(stop));
}

/* The next pair is one of heartbeats that servers take their time for. The newest proof of before was too soon behind another
 * one to be kept. */
static void lease_does_not_last_where_answers_come_too_late_for_a_pair(void)
{
	begin();
	zkl__lease_set_timeout(&lease, ns(40)); /* no single proof counts */
	proof(-7.2, -7.1);
	proof(-1.37, -0.6);
	proof(0, 0.3);
	CHECK_SECONDS(deadline(), 15);
	CHECK(lasts(12, 12, 0));
	CHECK(!lasts(13.5, 13.5, 0));
}

static void lease_lasts_if_the_next_heartbeat_is_answered_before_it_ends(void)
{
	begin();
	CHECK(!lasts(0, 0, 0));
	proof(0, 0.01);
	CHECK_SECONDS(deadline(), 9);
	CHECK(lasts(0.5, 2, 0));
	CHECK(lasts(0.5, 2, 6)); /* answered by 3 */
	CHECK(!lasts(0.5, 2.001, 6));
	CHECK(lasts(7.9, 2, 0)); /* overdue: it is sent at once */
	CHECK(!lasts(8, 2, 0));
}

/* After a stall no single proof counts for a while, and only one that is far enough from the first behind the stall makes a
 * pair. Also where each proof until then seems to move the deadline, since the margin ends the lease before the pair does. */
static void lease_does_not_last_whose_pair_is_too_old(void)
{
	for (int wider = 0; wider < 2; wider++) {
		begin_with(wider ? 9.05 : 0, 0, 0);
		proof(0, 0.01);
		for (int i = 1; i <= 4; i++)
			proof(2 * i, 14.9);
		CHECK_SECONDS(deadline(), wider ? 22.95 : 23);
		CHECK(lasts(14.9, 14.9, 0)); /* a proof sent at 21.9 makes a pair, and is answered by 22.9 */
		begin_with(wider ? 9.05 : 0, 0, 0);
		proof(0, 0.01);
		for (int i = 1; i <= 4; i++)
			proof(2 * i, 15.1);
		CHECK(!lasts(15.1, 15.1, 0));
	}
}

/* The next heartbeat makes a better pair, but what was answered so late makes the one after it too late. */
static void lease_does_not_last_that_only_one_proof_can_extend(void)
{
	for (int late = 0; late < 2; late++) {
		double replied = late ? 17.3 : 17.1;

		begin();
		proof(0, 0.01);
		proof(2.2, 2.3);
		proof(9, replied);
		CHECK_SECONDS(deadline(), 23);
		CHECK_INT(lasts(replied, replied, 0), !late);
	}
}

static void proofs_are_overdue_a_sixth_after_the_heartbeat_was_due(void)
{
	begin();
	proof(0, 0.01);
	CHECK_INT(zkl__lease_suspect(&lease), ns(epoch + 8));
	begin_with(0, 8, 0);
	proof(0, 0.01);
	CHECK_INT(zkl__lease_suspect(&lease), ns(epoch + 12));
}

/* ---- options ---------------------------------------------------------------------------------------------------------------------- */

static struct zkl__lease_limits limits_at(double margin, double heartbeat, double tick, double timeout)
{
	struct zkl__lease_options options = {ns(margin), ns(heartbeat), ns(tick)};
	struct zkl__lease_limits  limits;

	zkl__lease_limits(&options, ns(timeout), &limits);
	return limits;
}

static int64_t most_stop(double margin, double heartbeat, double tick)
{
	return limits_at(margin, heartbeat, tick, 24).stop_max;
}

static bool fits(const struct zkl__lease_options *options, int64_t timeout)
{
	struct zkl__lease_limits limits;

	zkl__lease_limits(options, timeout, &limits);
	return limits.stop_max >= 0;
}

static void defaults_fit_every_timeout(void)
{
	uint64_t seed = 7;

	for (int64_t t = 100; t <= 20000; t++)
		if (!CHECK_INT(limits_at(0, 0, 0, (double)t / 1000).stop_max, t * 1000000 / 4))
			return;
	for (int i = 0; i < 20000; i++) {
		struct zkl__lease_options defaults = {0};
		int64_t                   t = NS / 10 + check_below(&seed, DAY * NS);

		if (!fits(&defaults, t)) {
			FAIL("the defaults do not fit T = %" PRId64 " ns", t);
			return;
		}
	}
}

static void margin_too_small_is_refused_with_the_least_one(void)
{
	CHECK_INT(most_stop(8, 0, 0), -1);
	CHECK_INT(most_stop(8.999, 0, 0), -1);
	CHECK_INT(limits_at(8, 0, 0, 24).margin_min, ns(9));
	CHECK_INT(limits_at(1, 2, 0, 24).margin_min, ns(9)); /* four beats of 2 s cover 7 s */
	CHECK_INT(limits_at(1, 2, 2, 24).margin_min, ns(3)); /* the report is 2 s late at most: one beat */
	CHECK(most_stop(3, 2, 2) > 0);
	CHECK_INT(limits_at(0, 5, 0, 24).margin_min, ns(11)); /* two beats of 5 s: the default of 9 s is too small */
	CHECK_INT(most_stop(0, 5, 0), -1);
	CHECK(most_stop(0, 8, 0) > 0);
}

static void margin_that_leaves_no_heartbeat_is_refused_with_the_most(void)
{
	CHECK(most_stop(15, 0, 0) > 0);
	CHECK_INT(most_stop(15.001, 0, 0), -1);
	CHECK_INT(limits_at(15.001, 0, 0, 24).margin_max, ns(15));
	CHECK_INT(limits_at(0, 9, 0, 24).margin_max, ns(14)); /* 24 - 9 - 1 */
	CHECK_INT(most_stop(14, 9, 0), 0);
	CHECK_INT(most_stop(14.001, 9, 0), -1);
}

static void heartbeat_and_tick_out_of_range_are_refused(void)
{
	CHECK_INT(most_stop(0, 0.999, 0), -1);
	CHECK(most_stop(9, 1, 0) > 0);
	CHECK_INT(most_stop(12, 10, 0), ns(1));
	CHECK_INT(most_stop(12, 10.001, 0), -1);
	CHECK_INT(limits_at(12, 10.001, 0, 24).margin_max, 0);
	CHECK_INT(limits_at(12, 10.001, 0, 24).beat_max, ns(10));
	CHECK_INT(most_stop(-1, 0, 0), -1);
	CHECK_INT(most_stop(0, -1, 0), -1);
	CHECK_INT(most_stop(0, 0, -1), -1);
}

static void stop_leaves_a_heartbeat_of_the_lease(void)
{
	CHECK_INT(most_stop(0, 0, 0), ns(6));  /* a quarter */
	CHECK_INT(most_stop(0, 8, 0), ns(6));  /* 24 - 9 - 8 - 1 */
	CHECK_INT(most_stop(15, 0, 0), ns(4)); /* 24 - 15 - 4 - 1 */
	CHECK_INT(most_stop(15, 7, 0), ns(1));
	CHECK_INT(most_stop(3, 2, 2), ns(6));
}

/* What is accepted must also be had: with steady beats the lease ends exactly `margin` early, or T/24 later beat by beat. */
static void options_that_are_accepted_give_the_lease_they_promise(void)
{
	uint64_t seed = 11;
	int      tried = 0;

	for (int i = 0; i < 20000; i++) {
		struct zkl__lease_options o = {check_below(&seed, 15 * NS), 1 * NS + check_below(&seed, 11 * NS),
		                               check_below(&seed, 3) ? 0 : check_below(&seed, 12 * NS)};
		int64_t                   at = ns(epoch);

		if (!fits(&o, ns(24)))
			continue;
		tried++;
		zkl__lease_begin(&lease, &o);
		zkl__lease_set_timeout(&lease, ns(24));
		for (int beat = 0; beat < 40; beat++, at += o.heartbeat_ns)
			zkl__lease_add_proof(&lease, at, at); /* answered at once */
		at -= o.heartbeat_ns;
		/* The ring keeps one proof in T/24. */
		if (zkl__lease_deadline(&lease) < at + ns(24) - (o.margin_ns ? o.margin_ns : ns(9)) - NS) {
			FAIL("margin %" PRId64 " heartbeat %" PRId64 " tick %" PRId64 ": lease of %" PRId64,
			     o.margin_ns, o.heartbeat_ns, o.tick_ns, zkl__lease_deadline(&lease) - at);
			return;
		}
	}
	CHECK(tried > 1000);
}

/* ---- the deadline never falls ------------------------------------------------------------------------------------------------------ */

static void deadline_falls_only_with_the_timeout(void)
{
	uint64_t seed = 3;

	for (int round = 0; round < 3000; round++) {
		int64_t now = ns(epoch), before = 0;

		begin_with(0, 0, check_below(&seed, 2) ? 0 : 2);
		for (int i = 0; i < 60; i++) {
			int64_t sent;

			now += check_below(&seed, 10) ? check_below(&seed, 5 * NS) : check_below(&seed, 20 * NS);
			sent = now - check_below(&seed, 4 * NS);
			if (check_below(&seed, 20) == 0)
				zkl__lease_rest(&lease, now);
			if (check_below(&seed, 50) == 0) {
				zkl__lease_set_timeout(&lease, ns(12) + check_below(&seed, 20 * NS));
				before = 0;
			}
			zkl__lease_add_proof(&lease, sent, now);
			if (zkl__lease_deadline(&lease) < before) {
				FAIL("round %d: the deadline fell by %" PRId64 " ns", round,
				     before - zkl__lease_deadline(&lease));
				return;
			}
			before = zkl__lease_deadline(&lease);
		}
	}
}

/* ---- against a leader ---------------------------------------------------------------------------------------------------------------- */

/* A client behind a follower, and what its leader knows of it. The follower reports whom it has heard when the leader asks,
 * each tick/2 and up to T/24 late; with the report the session's time begins anew. A proof passes the leader at once and is
 * no report. The client sends heartbeats as the lease wants them, now and then another proof or a read, and it stalls. While
 * it is idle it pings each T/3. Whenever a proof is answered the follower could have been cut off right behind it: then the
 * last report before it is all that the leader ever hears. */
struct model {
	uint64_t seed;
	int64_t  tick, phase;  /* of the reports */
	int64_t  late[400];    /* how late the leader asks for each */
	int64_t  packets[400]; /* when the follower heard the client */
	unsigned packet_count;
	int64_t  now, stall_begin, stall_end;
	int64_t  least_slack;
};

static int64_t report(const struct model *m, int64_t j)
{
	int64_t at = m->phase + j * (m->tick / 2) + m->late[j % 400];
	int64_t before = j ? m->phase + (j - 1) * (m->tick / 2) + m->late[(j - 1) % 400] : 0;

	return at > before ? at : before;
}

/* When the leader last heard of the client, at the time `at`. */
static int64_t touched(const struct model *m, int64_t at)
{
	int64_t j = (at - m->phase) / (m->tick / 2) + 1;

	for (; j > 0; j--) {
		int64_t upto = report(m, j), from = report(m, j - 1);

		if (upto > at)
			continue;
		for (unsigned i = m->packet_count; i-- > 0;)
			if (m->packets[i] <= upto && m->packets[i] > from)
				return upto;
	}
	return m->packets[0];
}

/* Often one of the ends, else between. */
static int64_t between(uint64_t *seed, int64_t from, int64_t to)
{
	int64_t kind = check_below(seed, 4);

	return kind == 0 ? from : kind == 1 ? to : from + check_below(seed, to - from + 1);
}

static void begin_model(struct model *m, uint64_t seed)
{
	int64_t t = ns(24);

	*m = (struct model){.seed = seed, .least_slack = INT64_MAX};
	m->tick = between(&m->seed, t / 12, t / 2);
	m->phase = ns(epoch) - 20 * t - check_below(&m->seed, m->tick);
	for (int i = 0; i < 400; i++)
		m->late[i] = between(&m->seed, 0, t / 24);
	/* Idle until now; the last ping was up to T/3 ago. */
	m->now = ns(epoch);
	for (int64_t at = m->now - between(&m->seed, 0, t / 3) - 4 * (t / 3), i = 0; i < 5; i++, at += t / 3)
		m->packets[m->packet_count++] = at;
}

/* The client runs on until `at`, unless a stall comes in between. Returns when it really does what it had planned for then. */
static int64_t run_until(struct model *m, int64_t at, bool may_stall)
{
	int64_t t = ns(24);

	m->stall_begin = m->stall_end = 0;
	if (may_stall && check_below(&m->seed, 5) == 0) {
		m->stall_begin = m->now + check_below(&m->seed, at - m->now + 1);
		m->stall_end = m->stall_begin + between(&m->seed, 0, 2 * t / 3);
		at = at > m->stall_end ? at : m->stall_end;
	}
	m->now = at;
	return at;
}

/* Returns the deadline's slack: how much earlier it is than the leader may give the session up. */
static int64_t prove(struct model *m, bool may_stall)
{
	int64_t t = ns(24), sent = m->now, trip = between(&m->seed, 0, check_below(&m->seed, 10) ? t / 100 : t / 3);
	int64_t committed = sent + between(&m->seed, 0, trip), replied, slack;

	m->packets[m->packet_count++] = sent;
	replied = run_until(m, sent + trip, may_stall);
	zkl__lease_add_proof(&lease, sent, replied);
	zkl__lease_note_wait(&lease, sent, replied);
	slack = touched(m, committed) + t - zkl__lease_deadline(&lease);
	if (slack < m->least_slack)
		m->least_slack = slack;
	return slack;
}

static void begin_model_lease(struct model *m)
{
	struct zkl__lease_options o;

	do {
		o = (struct zkl__lease_options){0};
		if (check_below(&m->seed, 2))
			o.heartbeat_ns = between(&m->seed, ns(1), ns(12));
		if (check_below(&m->seed, 2))
			o.margin_ns = between(&m->seed, ns(1), ns(15));
		if (check_below(&m->seed, 2))
			o.tick_ns = m->tick;
	} while (!fits(&o, ns(24)));
	zkl__lease_begin(&lease, &o);
	zkl__lease_set_timeout(&lease, ns(24));
}

static void lease_ends_before_any_leader_can_give_the_session_up(void)
{
	uint64_t rounds = check_rounds(100000, 2000000);
	int64_t  least = INT64_MAX;

	for (uint64_t round = 0; round < rounds; round++) {
		struct model m;
		int          steps = 2 + (int)(round % 12);

		begin_model(&m, round);
		begin_model_lease(&m);
		for (int i = 0; i < steps; i++) {
			int64_t slack = prove(&m, true), next;

			if (i == 0) /* granted: from now on heartbeats flow */
				zkl__lease_wake(&lease, m.now);
			if (slack < 0) {
				FAIL("seed %" PRIu64 ", proof %d: the lease ends %" PRId64 " ms too late", round, i,
				     -slack / 1000000);
				return;
			}
			if (lease.heard_ns == m.now) /* a heartbeat is sent at once */
				continue;
			if (check_below(&m.seed, 8) == 0) { /* something that proves nothing, but is heard */
				run_until(&m, m.now + check_below(&m.seed, ns(1)), true);
				m.packets[m.packet_count++] = m.now;
			}
			/* The next heartbeat, or a proof of another lock before it. */
			next = lease.newest_ns + zkl__lease_beat_interval(&lease, 0);
			if (next > m.now)
				run_until(&m,
				          check_below(&m.seed, 6) ? next : m.now + check_below(&m.seed, next - m.now),
				          true);
		}
		least = m.least_slack < least ? m.least_slack : least;
	}
	/* The model comes near the worst case, else it would show nothing. */
	CHECK(least < ns(1.1));
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = {
		TEST(no_proof_is_no_lease),
		TEST(first_proof_of_an_idle_session_is_worth_three_eighths),
		TEST(time_runs_from_the_send_and_not_from_the_reply),
		TEST(flow_without_gaps_moves_the_deadline_on_before_the_first_pair),
		TEST(pair_is_worth_twenty_three_twenty_fourths_of_its_first),
		TEST(pair_needs_its_first_answered_seven_seconds_before_the_second_is_sent),
		TEST(tick_that_is_known_makes_pairs_of_nearer_proofs),
		TEST(tick_larger_than_the_session_can_have_is_taken_as_half_the_timeout),
		TEST(steady_state_is_five_eighths_after_the_newest_proof),
		TEST(margin_that_is_asked_for_shortens_the_lease),
		TEST(margin_never_becomes_smaller_than_the_least_when_the_servers_shorten_the_timeout),
		TEST(after_a_stall_only_pairs_count),
		TEST(gap_of_a_third_is_no_stall_and_more_is),
		TEST(after_a_stall_one_proof_counts_when_proofs_have_flowed_for_the_time_of_a_report),
		TEST(answer_that_takes_more_than_a_third_is_a_gap_too),
		TEST(after_a_rest_one_proof_counts_again),
		TEST(rest_does_not_forget_a_stall_before_it),
		TEST(stall_right_behind_the_first_grant_is_seen),
		TEST(heartbeat_of_who_becomes_next_after_a_long_rest_counts_alone),
		TEST(shorter_timeout_applies_to_old_proofs),
		TEST(one_proof_does_not_count_while_the_pings_come_by_a_longer_timeout),
		TEST(new_session_has_neither_lease_nor_timeout),
		TEST(begin_may_take_the_options_that_the_lease_has),
		TEST(older_proof_that_is_answered_later_takes_nothing_away),
		TEST(burst_of_proofs_keeps_the_older_ones),
		TEST(two_proofs_sent_at_once_count_as_one),
		TEST(heartbeat_is_quick_until_the_first_pair),
		TEST(heartbeat_that_is_asked_for_is_kept),
		TEST(heartbeat_is_quick_on_a_machine_that_has_just_booted),
		TEST(heartbeat_is_quick_where_the_next_one_would_come_after_the_stop),
		TEST(heartbeat_waits_until_it_is_worth_more_where_the_one_after_it_would_be_too_late),
		TEST(lease_does_not_last_where_answers_come_too_late_for_a_pair),
		TEST(lease_lasts_if_the_next_heartbeat_is_answered_before_it_ends),
		TEST(lease_does_not_last_whose_pair_is_too_old),
		TEST(lease_does_not_last_that_only_one_proof_can_extend),
		TEST(proofs_are_overdue_a_sixth_after_the_heartbeat_was_due),
		TEST(defaults_fit_every_timeout),
		TEST(margin_too_small_is_refused_with_the_least_one),
		TEST(margin_that_leaves_no_heartbeat_is_refused_with_the_most),
		TEST(heartbeat_and_tick_out_of_range_are_refused),
		TEST(stop_leaves_a_heartbeat_of_the_lease),
		TEST(options_that_are_accepted_give_the_lease_they_promise),
		TEST(deadline_falls_only_with_the_timeout),
		TEST(lease_ends_before_any_leader_can_give_the_session_up),
		{0}};

	return check_main("lease", tests, argc, argv);
}
