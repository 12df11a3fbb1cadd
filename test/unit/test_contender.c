/* SPDX-License-Identifier: Apache-2.0 */
/* The contender's protocol, as transcripts. A line is what happens, what the contender asks or tells, and its new state:
 *
 *     T("start",        "create, list -> JOIN");
 *     T("create ok #5", "");
 *     T("list #5",      "GRANTED, SETTLE -> HELD");
 *
 * "#5" is the node with sequence number 5 (see words.h). A reply answers the newest request of its kind, with "old" before it
 * the one before that. Small words are requests, capital ones are for the owner; "PROVE" asks for a heartbeat. "create+2" has
 * a uuid that was counted on by 2. */
#include "check.h"

#include <stdarg.h>

#include <zklock/zklock.h>

#include "words.h"

static struct {
	struct zkl__contender contender;
	char                  predecessor[ZKL__NAME_MAX];
	bool                  lease_live;
	struct zkl__uuid      uuid;       /* of START */
	uint32_t              newest[16]; /* id of the newest request of each kind, */
	uint32_t              before[16]; /* of the one before it, */
	struct zkl__uuid      asked[16];  /* and the newest one's uuid */
	struct words          words;
	int64_t               session_id;
} world;

/* ---- coverage: which input was seen in which state ---------------------------------------------------------------------- */

enum { COLUMNS = 24 };
static const char *const columns[COLUMNS] = {"start",      "leave",     "up",     "down",    "expired", "gone own",
                                             "gone pred",  "changed",   "live",   "over",    "settled", "create",
                                             "list",       "make-path", "sync",   "barrier", "find",    "watch",
                                             "watch-mark", "mark",      "delete", "renew"};
static bool              seen[ZKL__STATES][COLUMNS];

static void note_seen(const char *line)
{
	enum zkl__state state = world.contender.state;

	if (strncmp(line, "old ", 4) == 0)
		line += 4;
	for (unsigned i = 0; i < COLUMNS && columns[i]; i++) {
		size_t length = strlen(columns[i]);

		if (strncmp(line, columns[i], length) == 0 && (line[length] == ' ' || !line[length]))
			seen[state][i] = true;
	}
}

/* ---- from words to inputs --------------------------------------------------------------------------------------------------- */

static void reply_from(struct zkl__reply *reply, enum zkl__op op, bool old, char *text)
{
	memset(reply, 0, sizeof *reply);
	reply->op = op;
	reply->id = old ? world.before[op] : world.newest[op];
	if (!reply->id)
		reply->id = 1000000; /* of another life */
	reply->owner = world.session_id;
	words_reply(&world.words, reply, world.asked[op == ZKL__LIST ? ZKL__LIST : ZKL__CREATE], text);
}

static bool input_from(struct zkl__input *input, struct zkl__reply *reply, char *name, char *line)
{
	static const struct {
		const char          *word;
		enum zkl__input_type type;
	} types[] = {{"start", ZKL__IN_START},     {"leave", ZKL__IN_LEAVE},     {"up", ZKL__IN_LINK_UP},
	             {"down", ZKL__IN_LINK_DOWN},  {"expired", ZKL__IN_EXPIRED}, {"gone", ZKL__IN_GONE},
	             {"changed", ZKL__IN_CHANGED}, {"live", ZKL__IN_LEASE_LIVE}, {"over", ZKL__IN_LEASE_OVER},
	             {"settled", ZKL__IN_SETTLED}};
	bool  old = strncmp(line, "old ", 4) == 0;
	char *rest;

	if (old)
		line += 4;
	rest = line + strcspn(line, " ");
	if (*rest)
		*rest++ = 0;
	for (size_t i = 0; i < COUNT(types); i++)
		if (strcmp(line, types[i].word) == 0)
			input->type = types[i].type;
	if (input->type == ZKL__IN_GONE || input->type == ZKL__IN_CHANGED) {
		if (strncmp(rest, "own ", 4) == 0)
			rest += 4;
		else if (strncmp(rest, "pred ", 5) == 0)
			rest += 5;
		words_name(&world.words, name, rest, world.asked[ZKL__CREATE]);
		input->name = name;
	}
	if (input->type)
		return true;
	if (!words_op(line))
		return false;
	input->type = ZKL__IN_REPLY;
	input->reply = reply;
	reply_from(reply, words_op(line), old, rest);
	return true;
}

/* ---- from actions to words --------------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static void add(char *text, size_t size, const char *format, ...)
{
	size_t  length = strlen(text);
	va_list args;

	va_start(args, format);
	vsnprintf(text + length, size - length, format, args);
	va_end(args);
}

static void print_request(char *text, size_t size, const struct zkl__request *request)
{
	enum zkl__op op = request->op;

	add(text, size, "%s", zkl__op_name(op));
	if (request->name)
		add(text, size, " #%" PRId64, zkl__queue_sequence(request->name));
	if (op == ZKL__CREATE && request->uuid.low != world.uuid.low)
		add(text, size, "+%" PRIu64, request->uuid.low - world.uuid.low);
	world.before[op] = world.newest[op];
	world.newest[op] = request->id;
	world.asked[op] = request->uuid;
}

static void print_action(char *text, size_t size, const struct zkl__action *action)
{
	static const char *const told[] = {
		[ZKL__ASK_PROOF] = "PROVE",      [ZKL__TELL_WAITING] = "WAITING", [ZKL__TELL_REQUEUED] = "REQUEUED",
		[ZKL__TELL_GRANTED] = "GRANTED", [ZKL__TELL_SETTLE] = "SETTLE",   [ZKL__TELL_LOST] = "LOST",
		[ZKL__TELL_FAILED] = "FAILED",   [ZKL__TELL_DONE] = "DONE",       [ZKL__WARN] = "WARN"};

	if (*text)
		add(text, size, ", ");
	if (action->type == ZKL__SEND) {
		print_request(text, size, &action->request);
		return;
	}
	add(text, size, "%s", told[action->type]);
	if (action->type == ZKL__TELL_WAITING)
		add(text, size, " %u", action->ahead);
	if (action->error)
		add(text, size, " %s", zkl_error_name(action->error) + strlen("ZKL_"));
	if (action->type == ZKL__TELL_FAILED || action->type == ZKL__WARN)
		CHECK(action->text && *action->text && !strchr(action->text, '\n'));
}

static void transcript(const char *what, const char *expected, const char *file, int line)
{
	char              state[32], words[400], text[600] = "", name[WORDS_NAME];
	struct zkl__input input = {.lease_live = world.lease_live, .session_id = world.session_id, .uuid = world.uuid};
	struct zkl__reply reply;
	struct zkl__actions actions;

	snprintf(state, sizeof state, "%s", zkl__state_name(world.contender.state));
	snprintf(words, sizeof words, "%s", what);
	note_seen(what);
	if (!input_from(&input, &reply, name, words)) {
		check_that(false, what, file, line);
		return;
	}
	zkl__contender_step(&world.contender, &input, &actions);
	for (unsigned i = 0; i < actions.count; i++) {
		print_action(text, sizeof text, &actions.list[i]);
		if (actions.list[i].type == ZKL__TELL_GRANTED)
			world.contender.predecessor = NULL;
	}
	if (strcmp(state, zkl__state_name(world.contender.state)) != 0)
		add(text, sizeof text, "%s-> %s", *text ? " " : "", zkl__state_name(world.contender.state));
	check_str(text, expected, what, file, line);
}

#define T(what, expected) transcript(what, expected, __FILE__, __LINE__)

/* ---- ways to each state -------------------------------------------------------------------------------------------------------- */

static void begin(unsigned flags)
{
	memset(&world, 0, sizeof world);
	world.lease_live = true;
	world.session_id = 77;
	world.uuid = (struct zkl__uuid){0x1111111111114111, 0x8111111111111100};
	zkl__contender_init(&world.contender, flags, world.predecessor);
}

static void begin_linked(unsigned flags)
{
	begin(flags);
	T("up", "");
}

static void to_idle(void)
{
	begin_linked(0);
}

static void to_try(void)
{
	begin_linked(ZKL__CONTENDER_TRY);
	T("start", "sync, list -> TRY");
}

static void to_make(void)
{
	begin_linked(0);
	T("start", "create, list -> JOIN");
	T("create no-node", "make-path -> MAKE");
	T("list no-node", "");
}

static void to_join(void)
{
	begin_linked(0);
	T("start", "create, list -> JOIN");
}

/* Our node has a number from the end of the sequence on. */
static void to_renewal(void)
{
	to_join();
	T("create ok ours#2146435072", "");
	T("list #2146435072", "delete #2146435072, list -> RENEWAL");
}

static void to_renewal_of_an_empty_directory(void)
{
	to_renewal();
	T("delete ok", "");
	T("list ok created=2146435073", "WARN, renew");
}

/* The create's outcome is unknown. */
static void to_adopt(void)
{
	to_join();
	T("down", "");
	T("create unknown", "");
	T("list unknown", "");
	T("up", "barrier, list -> ADOPT");
}

/* Behind #3, which is known to be the lowest; both watches are in force. */
static void to_wait_as_next(void)
{
	to_join();
	T("create ok ours#5", "");
	T("list #3 #5", "WAITING 1, watch #5, watch #3 -> WAIT");
	T("old watch ok", "");
	T("watch ok", "");
}

/* Behind #3 and #4, not knowing who is the lowest. */
static void to_wait(void)
{
	to_join();
	T("create ok ours#5", "");
	T("list #3 #4 #5", "WAITING 2, watch #5, watch-mark #4 -> WAIT");
	T("watch ok", "");
	T("watch-mark ok", "");
}

static void to_relist(void)
{
	to_wait();
	T("gone pred #4", "list -> RELIST");
}

static void to_entitled(void)
{
	to_wait_as_next();
	world.lease_live = false;
	T("gone pred #3", "PROVE -> ENTITLED");
}

/* It found the lock free. */
static void to_held(void)
{
	to_join();
	T("create ok ours#5", "");
	T("list #5", "GRANTED, SETTLE -> HELD");
	T("settled", "watch #5");
	T("watch ok", "");
}

/* It had to wait. */
static void to_held_after_waiting(void)
{
	to_wait_as_next();
	T("gone pred #3", "GRANTED, SETTLE -> HELD");
	T("settled", "mark #5");
	T("mark ok", "");
}

static void to_lost(void)
{
	to_held();
	T("over", "LOST -> LOST");
}

static void to_leave(void)
{
	to_held();
	T("leave", "delete #5 -> LEAVE");
}

/* ---- queueing -------------------------------------------------------------------------------------------------------------------- */

static void free_lock_is_granted_after_one_round_trip(void)
{
	begin_linked(0);
	T("start", "create, list -> JOIN");
	T("create ok ours#5", "");
	T("list #5", "GRANTED, SETTLE -> HELD");
	CHECK_INT(zkl__contender_token(&world.contender), 1005);
	T("settled", "watch #5");
	T("watch ok", "");
	T("leave", "delete #5 -> LEAVE");
	T("delete ok", "DONE -> IDLE");
	CHECK_INT(zkl__contender_token(&world.contender), 0);
}

static void start_without_a_link_waits_for_it(void)
{
	begin(0);
	T("start", "-> JOIN");
	T("up", "create, list");
	begin(ZKL__CONTENDER_TRY);
	T("start", "-> TRY");
	T("up", "sync, list");
}

static void start_without_a_link_is_left_without_a_trace(void)
{
	begin(0);
	T("start", "-> JOIN");
	T("leave", "DONE -> IDLE");
}

static void waiter_watches_its_own_node_before_the_predecessor(void)
{
	to_join();
	T("create ok ours#5", "");
	T("list #3 #5", "WAITING 1, watch #5, watch #3 -> WAIT");
	to_join();
	T("create ok ours#5", "");
	T("list #1 #2 #5 #6", "WAITING 2, watch #5, watch-mark #2 -> WAIT");
}

static void missing_directory_is_made_and_the_pair_sent_again(void)
{
	begin_linked(0);
	T("start", "create, list -> JOIN");
	T("create no-node", "make-path -> MAKE");
	T("list no-node", "");
	T("make-path ok", "create, list -> JOIN");
	T("create ok ours#0", "");
	T("list #0", "GRANTED, SETTLE -> HELD");
	CHECK_INT(zkl__contender_token(&world.contender), 1000);
}

static void directory_that_somebody_else_made_is_as_good(void)
{
	to_make();
	T("make-path exists", "create, list -> JOIN");
}

static void directory_that_vanishes_again_is_made_again(void)
{
	to_make();
	T("make-path ok", "create, list -> JOIN");
	T("create no-node", "make-path -> MAKE");
	T("list no-node", "");
	T("make-path ok", "create, list -> JOIN");
}

static void missing_chroot_is_never_made(void)
{
	to_make();
	T("make-path no-node", "FAILED EPATH, DONE -> IDLE");
}

static void directory_that_may_not_be_made_fails(void)
{
	to_make();
	T("make-path denied", "FAILED EACCES, DONE -> IDLE");
	to_make();
	T("make-path refused", "FAILED EZK, DONE -> IDLE");
}

static void ephemeral_parent_is_a_bad_path(void)
{
	to_make();
	T("make-path barren", "FAILED EPATH, DONE -> IDLE");
	to_join();
	T("create barren", "FAILED EPATH, DONE -> IDLE");
	T("list", "");
}

static void credentials_that_are_no_identity_are_not_permitted(void)
{
	to_make();
	T("make-path unclaimed", "FAILED EACCES, DONE -> IDLE");
	to_join();
	T("create unclaimed", "FAILED EACCES, DONE -> IDLE");
	T("list", "");
}

static void lost_make_path_is_sent_again(void)
{
	to_make();
	T("down", "");
	T("make-path unknown", "");
	T("up", "make-path");
	T("make-path ok", "create, list -> JOIN");
}

/* The first one was only queued when the connection broke, and ran on the next one. */
static void make_path_answered_twice_joins_once(void)
{
	to_make();
	T("down", "");
	T("up", "make-path");
	T("old make-path ok", "create, list -> JOIN");
	T("make-path exists", "");
}

static void create_that_is_not_permitted_fails_without_a_trace(void)
{
	to_join();
	T("create denied", "FAILED EACCES, DONE -> IDLE");
	T("list denied", "");
	to_join();
	T("create refused", "FAILED EZK, DONE -> IDLE");
	T("list refused", "");
}

static void list_that_is_not_permitted_fails_and_the_node_goes(void)
{
	to_join();
	T("create ok ours#5", "");
	T("list denied", "FAILED EACCES, delete #5 -> LEAVE");
	T("delete ok", "DONE -> IDLE");
	to_join();
	T("create ok ours#5", "");
	T("list refused", "FAILED EZK, delete #5 -> LEAVE");
}

/* ZOOKEEPER-1046: a sequential create that finds its name taken. */
static void create_that_exists_is_tried_again_three_times_with_another_name(void)
{
	to_join();
	T("create exists", "create+1, list");
	T("old list #3", "");
	T("create exists", "create+2, list");
	T("create exists", "create+3, list");
	T("create exists", "FAILED EZK, DONE -> IDLE");
	to_join();
	T("create exists", "create+1, list");
	T("create ok ours#6", "");
	T("list #6", "GRANTED, SETTLE -> HELD");
}

static void foreign_contender_blocks_and_is_logged_once(void)
{
	to_join();
	T("create ok ours#5", "");
	T("list kazoo#2 kazoo#4 #5", "WARN, WAITING 2, watch #5, watch-mark #4 -> WAIT");
	T("watch ok", "");
	T("gone pred kazoo#4", "list -> RELIST");
	T("list kazoo#2 #5", "WAITING 1, watch #2 -> WAIT");
}

/* A directory with a contender's name: it blocks, whatever it is. */
static void node_in_front_that_no_session_ends_is_logged_once(void)
{
	to_join();
	T("create ok ours#5", "");
	T("list #2 #4 #5", "WAITING 2, watch #5, watch-mark #4 -> WAIT");
	T("watch ok", "");
	T("watch-mark ok owner=0", "WARN");
	T("changed pred #4", "watch-mark #4");
	T("watch-mark ok owner=0", "");
	T("gone pred #4", "list -> RELIST");
	T("list #2 #5", "WAITING 1, watch #2 -> WAIT");
	T("watch ok owner=0", "WARN");
	T("gone pred #2", "GRANTED, SETTLE -> HELD");
	to_join();
	T("create ok ours#5", "");
	T("list #2 #5", "WAITING 1, watch #5, watch #2 -> WAIT");
	T("old watch ok", "");
	T("watch ok owner=76", "");
}

static void candidate_in_front_in_a_locks_directory_is_a_clear_error(void)
{
	to_join();
	T("create ok ours#5", "");
	T("list latch#2 #4 #5", "FAILED EPATH, delete #5 -> LEAVE");
	T("delete ok", "DONE -> IDLE");
	/* Behind us it is its own affair. */
	to_join();
	T("create ok ours#5", "");
	T("list #5 latch#6", "GRANTED, SETTLE -> HELD");
	begin_linked(ZKL__CONTENDER_TRY);
	T("start", "sync, list -> TRY");
	T("list latch#2", "FAILED EPATH, DONE -> IDLE");
}

static void children_that_are_no_contenders_are_ignored(void)
{
	to_join();
	T("create ok ours#5", "");
	T("list config #5", "GRANTED, SETTLE -> HELD");
}

static void second_node_of_ours_is_deleted(void)
{
	to_join();
	T("create ok ours#5", "");
	T("list #5 ours#7", "WARN, delete #7, GRANTED, SETTLE -> HELD");
	T("delete ok", "");
	T("settled", "watch #5");
}

static void contender_with_a_name_too_long_to_watch_fails(void)
{
	to_join();
	T("create ok ours#5", "");
	T("list long#3 #5", "FAILED EPATH, delete #5 -> LEAVE");
}

static void place_lost_before_the_list_is_queued_for_again(void)
{
	to_join();
	T("create ok ours#5", "");
	T("list #3", "REQUEUED, create+1, list");
	to_join();
	T("create ok ours#5", "");
	T("gone own #5", "REQUEUED, create+1, list");
	T("old list #5", "");
	/* the whole directory went */
	to_join();
	T("create ok ours#5", "");
	T("list no-node", "REQUEUED, create+1, list");
	T("create no-node", "make-path -> MAKE");
}

static void no_requeue_fails_when_the_place_is_lost(void)
{
	static const char *const losses[] = {"expired", "gone own #5"};

	for (size_t i = 0; i < COUNT(losses); i++) {
		begin_linked(ZKL__CONTENDER_NO_REQUEUE);
		T("start", "create, list -> JOIN");
		T("create ok ours#5", "");
		T("list #3 #5", "WAITING 1, watch #5, watch #3 -> WAIT");
		T(losses[i], "FAILED ELOST, DONE -> IDLE");
	}
}

/* ---- waiting, and our turn ------------------------------------------------------------------------------------------------------ */

static void predecessor_gone_and_known_lowest_grants_without_a_read(void)
{
	to_wait_as_next();
	T("gone pred #3", "GRANTED, SETTLE -> HELD");
}

static void predecessor_gone_and_not_known_lowest_lists_once(void)
{
	to_wait();
	T("gone pred #4", "list -> RELIST");
	T("list #3 #5", "WAITING 1, watch #3 -> WAIT");
	T("watch ok", "");
	T("gone pred #3", "GRANTED, SETTLE -> HELD");
	to_wait();
	T("gone pred #4", "list -> RELIST");
	T("list #5", "GRANTED, SETTLE -> HELD");
}

static void predecessor_gone_waits_for_the_watch_on_our_own_node(void)
{
	to_join();
	T("create ok ours#5", "");
	T("list #3 #5", "WAITING 1, watch #5, watch #3 -> WAIT");
	T("gone pred #3", "");
	T("old watch ok", "GRANTED, SETTLE -> HELD");
	T("watch no-node", "");
}

static void predecessor_gone_and_not_known_lowest_waits_for_our_own_watch_too(void)
{
	to_join();
	T("create ok ours#5", "");
	T("list #3 #4 #5", "WAITING 2, watch #5, watch-mark #4 -> WAIT");
	T("gone pred #4", "");
	T("watch ok", "list -> RELIST");
}

/* An operator deleted our node, and then the predecessor went. */
static void own_node_gone_before_the_predecessor_is_never_granted(void)
{
	to_join();
	T("create ok ours#5", "");
	T("list #3 #5", "WAITING 1, watch #5, watch #3 -> WAIT");
	T("gone pred #3", "");
	T("old watch no-node", "REQUEUED, create+1, list -> JOIN");
	T("watch no-node", "");
	to_wait_as_next();
	T("gone own #5", "REQUEUED, create+1, list -> JOIN");
	T("gone pred #3", "");
}

static void predecessor_that_went_before_its_watch_counts_as_gone(void)
{
	to_join();
	T("create ok ours#5", "");
	T("list #3 #5", "WAITING 1, watch #5, watch #3 -> WAIT");
	T("old watch ok", "");
	T("watch no-node", "GRANTED, SETTLE -> HELD");
	to_join();
	T("create ok ours#5", "");
	T("list #3 #4 #5", "WAITING 2, watch #5, watch-mark #4 -> WAIT");
	T("watch ok", "");
	T("watch-mark no-node", "list -> RELIST");
}

static void mark_in_the_first_read_makes_us_next(void)
{
	to_join();
	T("create ok ours#5", "");
	T("list #3 #4 #5", "WAITING 2, watch #5, watch-mark #4 -> WAIT");
	T("watch ok", "");
	CHECK(!zkl__contender_wants_lease(&world.contender));
	T("watch-mark ok marked", "");
	CHECK(zkl__contender_wants_lease(&world.contender));
	T("gone pred #4", "GRANTED, SETTLE -> HELD");
}

static void mark_is_seen_by_a_change_and_a_read(void)
{
	to_wait();
	T("changed pred #4", "watch-mark #4");
	CHECK(!zkl__contender_wants_lease(&world.contender));
	T("watch-mark ok marked", "");
	CHECK(zkl__contender_wants_lease(&world.contender));
	T("gone pred #4", "GRANTED, SETTLE -> HELD");
}

static void change_without_the_mark_proves_nothing(void)
{
	to_wait();
	T("changed pred #4", "watch-mark #4");
	T("watch-mark ok", "");
	T("gone pred #4", "list -> RELIST");
	/* gone while the read is under way */
	to_wait();
	T("changed pred #4", "watch-mark #4");
	T("gone pred #4", "list -> RELIST");
	T("watch-mark no-node", "");
	to_wait();
	T("changed pred #4", "watch-mark #4");
	T("watch-mark no-node", "list -> RELIST");
}

/* A change has used up the watch, also one behind the mark: a mark repeated after a lost reply, or an operator's write. */
static void change_behind_the_mark_is_watched_again(void)
{
	to_wait();
	T("changed pred #4", "watch-mark #4");
	T("watch-mark ok marked", "");
	T("changed pred #4", "watch #4");
	T("watch ok", "");
	T("gone pred #4", "GRANTED, SETTLE -> HELD");
	to_wait();
	T("changed pred #4", "watch-mark #4");
	T("watch-mark ok marked", "");
	T("changed pred #4", "watch #4");
	T("watch no-node", "GRANTED, SETTLE -> HELD");
}

static void only_the_newest_read_of_the_predecessor_counts(void)
{
	to_wait();
	T("changed pred #4", "watch-mark #4");
	T("changed pred #4", "watch-mark #4");
	T("old watch-mark no-node", "");
	T("watch-mark ok marked", "");
	T("gone pred #4", "GRANTED, SETTLE -> HELD");
}

static void older_list_is_ignored(void)
{
	to_relist();
	T("down", "");
	T("up", "watch #5, list");
	T("old list #5", "");
	T("list #3 #5", "WAITING 1, watch #3 -> WAIT");
}

static void strangers_nodes_mean_nothing(void)
{
	to_wait();
	T("gone #3", "");
	T("changed #3", "");
	T("gone #9", "");
}

static void waiter_whose_node_is_gone_goes_to_the_tail(void)
{
	to_wait();
	T("gone own #5", "REQUEUED, create+1, list -> JOIN");
	T("create ok ours#8", "");
	T("list #3 #4 #8", "WAITING 2, watch #8, watch-mark #4 -> WAIT");
	CHECK_INT(world.contender.requeued, 1);
	to_relist();
	T("gone own #5", "REQUEUED, create+1, list -> JOIN");
	T("old list #5", "");
	to_relist();
	T("list #3", "REQUEUED, create+1, list -> JOIN");
	to_entitled();
	T("gone own #5", "REQUEUED, create+1, list -> JOIN");
	T("live", "");
}

static void node_that_may_not_be_read_fails(void)
{
	to_join();
	T("create ok ours#5", "");
	T("list #3 #4 #5", "WAITING 2, watch #5, watch-mark #4 -> WAIT");
	T("watch ok", "");
	T("watch-mark denied", "FAILED EACCES, delete #5 -> LEAVE");
	to_join();
	T("create ok ours#5", "");
	T("list #3 #5", "WAITING 1, watch #5, watch #3 -> WAIT");
	T("old watch refused", "FAILED EZK, delete #5 -> LEAVE");
	T("watch refused", "");
}

/* ---- lease ----------------------------------------------------------------------------------------------------------------------- */

static void our_turn_without_a_lease_proves_first(void)
{
	to_wait_as_next();
	world.lease_live = false;
	T("gone pred #3", "PROVE -> ENTITLED");
	CHECK(zkl__contender_wants_lease(&world.contender));
	world.lease_live = true;
	T("live", "GRANTED, SETTLE -> HELD");
}

static void proof_that_comes_too_late_grants_nothing(void)
{
	to_entitled();
	T("live", "");
	world.lease_live = true;
	T("live", "GRANTED, SETTLE -> HELD");
}

static void lowest_in_the_list_without_a_lease_proves_first(void)
{
	to_join();
	world.lease_live = false;
	T("create ok ours#5", "");
	T("list #5", "watch #5, PROVE -> ENTITLED");
	T("watch ok", "");
	world.lease_live = true;
	T("live", "GRANTED -> HELD");
}

static void list_without_a_lease_is_sent_together_with_a_proof(void)
{
	to_wait();
	world.lease_live = false;
	T("gone pred #4", "list, PROVE -> RELIST");
	world.lease_live = true;
	T("live", "");
	T("list #5", "GRANTED, SETTLE -> HELD");
}

static void only_holder_and_next_want_the_lease(void)
{
	static const struct {
		void (*way)(void);
		bool wants;
	} cases[] = {{to_idle, false},    {to_try, false},  {to_make, false},        {to_join, false},
	             {to_adopt, false},   {to_wait, false}, {to_wait_as_next, true}, {to_relist, false},
	             {to_entitled, true}, {to_held, true},  {to_lost, false},        {to_leave, false}};

	for (size_t i = 0; i < COUNT(cases); i++) {
		cases[i].way();
		if (!CHECK(zkl__contender_wants_lease(&world.contender) == cases[i].wants))
			printf("    %s\n", zkl__state_name(world.contender.state));
	}
}

/* ---- holding ---------------------------------------------------------------------------------------------------------------------- */

static void holder_of_a_free_lock_sets_its_watch_later_and_does_not_mark(void)
{
	to_join();
	T("create ok ours#5", "");
	T("list #5", "GRANTED, SETTLE -> HELD");
	T("settled", "watch #5");
	T("settled", "");
	T("watch ok", "");
	T("settled", "");
}

static void holder_that_waited_marks_once(void)
{
	to_held_after_waiting();
	T("settled", "");
}

static void election_never_marks(void)
{
	begin_linked(ZKL__CONTENDER_NO_MARK);
	T("start", "create, list -> JOIN");
	T("create ok ours#5", "");
	T("list #3 #5", "WAITING 1, watch #5, watch #3 -> WAIT");
	T("old watch ok", "");
	T("gone pred #3", "GRANTED, SETTLE -> HELD");
	T("settled", "");
}

static void mark_that_was_lost_is_repeated(void)
{
	to_wait_as_next();
	T("gone pred #3", "GRANTED, SETTLE -> HELD");
	T("settled", "mark #5");
	T("down", "");
	T("mark unknown", "");
	T("up", "watch #5, SETTLE");
	T("settled", "mark #5");
	T("mark ok", "");
	T("down", "");
	T("up", "watch #5");
}

/* The mark was only queued when the connection broke, and ran on the next one. */
static void mark_under_way_is_not_repeated(void)
{
	to_wait_as_next();
	T("gone pred #3", "GRANTED, SETTLE -> HELD");
	T("settled", "mark #5");
	T("down", "");
	T("up", "watch #5");
	T("mark ok", "");
}

static void mark_is_not_sent_without_a_link(void)
{
	to_wait_as_next();
	T("gone pred #3", "GRANTED, SETTLE -> HELD");
	T("down", "");
	T("settled", "");
	T("up", "watch #5, SETTLE");
	T("settled", "mark #5");
}

static void mark_that_is_refused_is_not_repeated(void)
{
	to_wait_as_next();
	T("gone pred #3", "GRANTED, SETTLE -> HELD");
	T("settled", "mark #5");
	T("mark denied", "");
	T("settled", "");
}

static void holder_whose_node_is_gone_loses_once(void)
{
	to_held();
	T("gone own #5", "LOST -> LOST");
	T("gone own #5", "");
	T("over", "");
	T("leave", "DONE -> IDLE");
	to_join();
	T("create ok ours#5", "");
	T("list #5", "GRANTED, SETTLE -> HELD");
	T("settled", "watch #5");
	T("watch no-node", "LOST -> LOST");
	T("leave", "DONE -> IDLE");
	to_wait_as_next();
	T("gone pred #3", "GRANTED, SETTLE -> HELD");
	T("settled", "mark #5");
	T("mark no-node", "LOST -> LOST");
	T("leave", "DONE -> IDLE");
}

static void holder_whose_lease_is_over_keeps_its_node_until_it_leaves(void)
{
	to_held();
	T("over", "LOST -> LOST");
	T("settled", "");
	T("live", "");
	T("down", "");
	T("up", "");
	T("leave", "delete #5 -> LEAVE");
	T("delete ok", "DONE -> IDLE");
}

static void lost_holder_whose_node_goes_has_nothing_to_delete(void)
{
	to_lost();
	T("gone own #5", "");
	T("leave", "DONE -> IDLE");
	to_lost();
	T("expired", "");
	T("leave", "DONE -> IDLE");
	to_held();
	T("expired", "LOST -> LOST");
	T("up", "");
	T("leave", "DONE -> IDLE");
}

static void holder_watches_its_own_node_again_after_a_reconnect(void)
{
	to_held();
	T("down", "");
	T("up", "watch #5");
	T("watch no-node", "LOST -> LOST");
}

static void holder_that_cannot_be_watched_is_logged_and_holds_on(void)
{
	to_join();
	T("create ok ours#5", "");
	T("list #5", "GRANTED, SETTLE -> HELD");
	T("settled", "watch #5");
	T("watch denied", "WARN");
	T("down", "");
	T("up", "watch #5");
	T("over", "LOST -> LOST");
	T("watch refused", "WARN");
}

static void token_counts_on_from_the_birth_of_the_directory(void)
{
	to_join();
	T("create ok ours#41 czxid=5000", "");
	T("list ok #41 czxid=4300", "GRANTED, SETTLE -> HELD");
	CHECK_INT(zkl__contender_token(&world.contender), 4341);
}

static void token_that_would_not_grow_is_refused(void)
{
	to_join();
	T("create ok ours#41 czxid=4341", "");
	T("list ok #41 czxid=4300", "FAILED EPATH, delete #41 -> LEAVE");
	to_join();
	T("create ok ours#41 czxid=4342", "");
	T("list ok #41 czxid=4300", "GRANTED, SETTLE -> HELD");
}

/* ---- the end of the sequence ---------------------------------------------------------------------------------------------------- */

static void number_at_the_end_is_given_back_and_the_empty_directory_made_anew(void)
{
	to_renewal();
	T("delete ok", "");
	T("list ok created=2146435073", "WARN, renew");
	T("renew ok", "make-path -> MAKE");
	T("make-path ok", "create+1, list -> JOIN");
	T("create ok ours#0", "");
	T("list #0 czxid=9000", "GRANTED, SETTLE -> HELD");
	CHECK_INT(zkl__contender_token(&world.contender), 9000);
}

static void number_before_the_end_is_granted(void)
{
	to_join();
	T("create ok ours#2146435071 czxid=9999999999", "");
	T("list #2146435071", "GRANTED, SETTLE -> HELD");
}

static void those_before_the_end_finish_first(void)
{
	to_renewal();
	T("delete ok", "");
	T("list #2146435070 #2146435071 #2146435079 created=2146435080", "WAITING 3, watch #2146435071");
	T("watch ok", "");
	T("changed pred #2146435071", "");
	T("gone own #2146435072", "");
	T("gone #2146435070", "");
	T("gone pred #2146435071", "list");
	/* Who came behind the end makes room by itself, and is waited for last. */
	T("list #2146435079 created=2146435080", "WAITING 1, watch #2146435079");
	T("watch no-node", "list");
	T("list ok created=2146435080", "WARN, renew");
	T("renew ok", "make-path -> MAKE");
}

static void directory_that_another_made_anew_is_joined(void)
{
	to_renewal();
	T("delete no-node", "");
	T("list no-node", "make-path -> MAKE");
	to_renewal();
	T("delete no-node", "");
	T("list #0 created=1", "create+1, list -> JOIN");
	to_renewal_of_an_empty_directory();
	T("renew no-node", "make-path -> MAKE");
}

static void directory_that_is_not_empty_any_more_is_waited_for_again(void)
{
	to_renewal_of_an_empty_directory();
	T("old renew ok", "");
	T("renew not-empty", "list");
	T("list #2146435074 created=2146435075", "WAITING 1, watch #2146435074");
}

static void directory_that_cannot_be_made_anew_ends_the_attempt(void)
{
	to_renewal_of_an_empty_directory();
	T("renew denied", "FAILED EEXHAUSTED, DONE -> IDLE");
	to_renewal_of_an_empty_directory();
	T("renew refused", "FAILED EZK, DONE -> IDLE");
	to_renewal();
	T("delete ok", "");
	T("list config created=2146435073", "FAILED EEXHAUSTED, DONE -> IDLE");
	to_renewal();
	T("delete ok", "");
	T("list over created=2146435073", "FAILED EEXHAUSTED, DONE -> IDLE");
	to_renewal();
	T("delete ok", "");
	T("list latch#3 created=2146435073", "FAILED EPATH, DONE -> IDLE");
	to_renewal();
	T("delete denied", "FAILED EACCES, delete #2146435072 -> LEAVE");
	to_renewal();
	T("delete ok", "");
	T("list denied", "FAILED EACCES, DONE -> IDLE");
}

static void contenders_who_stay_behind_the_end_are_not_waited_for_for_ever(void)
{
	to_renewal();
	T("delete ok", "");
	for (int i = 0; i < 32; i++) {
		T("list kazoo#2146435080 created=2146435081", "WAITING 1, watch #2146435080");
		T("gone pred kazoo#2146435080", "list");
	}
	T("list kazoo#2146435080 created=2146435081", "FAILED EEXHAUSTED, DONE -> IDLE");
}

static void renewal_goes_on_after_a_reconnect(void)
{
	to_renewal();
	T("down", "");
	T("delete unknown", "");
	T("list unknown", "");
	T("up", "delete #2146435072, list");
	T("down", "");
	T("up", "list"); /* the delete may still be under way */
	T("delete unknown", "delete #2146435072, list");
	T("old list unknown", "");
	T("delete ok", "");
	T("list #2146435071 created=2146435073", "WAITING 1, watch #2146435071");
	T("down", "");
	T("gone pred #2146435071", ""); /* of the gap */
	T("up", "list");
	/* A server that lags. */
	T("list #2146435072 created=2146435073", "WAITING 1, watch #2146435072");
	T("gone pred #2146435072", "list");
	T("list ok created=2146435073", "WARN, renew");
	T("down", "");
	T("renew unknown", "");
	T("up", "list");
	T("list no-node", "make-path -> MAKE");
}

static void renewal_goes_on_in_a_new_session(void)
{
	to_renewal();
	T("expired", "");
	T("delete unknown", "");
	T("list unknown", "");
	T("up", "list");
	T("list ok created=2146435073", "WARN, renew");
	T("renew ok", "make-path -> MAKE");
}

static void who_leaves_during_a_renewal_leaves_no_trace(void)
{
	to_renewal();
	T("leave", "-> LEAVE");
	T("list ok created=2146435073", "");
	T("delete ok", "DONE -> IDLE");
	to_renewal();
	T("delete ok", "");
	T("leave", "DONE -> IDLE");
	to_renewal_of_an_empty_directory();
	T("leave", "DONE -> IDLE");
	T("renew ok", "");
}

static void number_that_ran_over_is_given_back_by_its_name(void)
{
	to_join();
	T("create ok over", "");
	T("list over", "FAILED EEXHAUSTED, delete #-2 -> LEAVE");
	T("delete ok", "DONE -> IDLE");
}

static void child_whose_number_ran_over_ends_the_attempt(void)
{
	to_join();
	T("create ok ours#5", "");
	T("list #5 x--000000005", "FAILED EEXHAUSTED, delete #5 -> LEAVE");
	to_relist();
	T("list #5 x--000000005", "FAILED EEXHAUSTED, delete #5 -> LEAVE");
}

/* ---- try ---------------------------------------------------------------------------------------------------------------------------- */

static void try_of_a_busy_lock_costs_a_read_and_writes_nothing(void)
{
	to_try();
	T("sync ok", "");
	T("list #3", "FAILED EBUSY, DONE -> IDLE");
}

static void try_of_a_free_lock_joins(void)
{
	to_try();
	T("sync ok", "");
	T("list ok", "create, list -> JOIN");
	T("create ok ours#5", "");
	T("list #5", "GRANTED, SETTLE -> HELD");
}

static void try_that_is_overtaken_after_its_create_leaves(void)
{
	to_try();
	T("list ok", "create, list -> JOIN");
	T("create ok ours#5", "");
	T("list #4 #5", "FAILED EBUSY, delete #5 -> LEAVE");
	T("delete ok", "DONE -> IDLE");
}

static void try_without_a_directory_makes_it(void)
{
	to_try();
	T("list no-node", "make-path -> MAKE");
	T("make-path ok", "create, list -> JOIN");
}

static void try_near_the_end_of_the_sequence_creates_nothing(void)
{
	to_try();
	T("list ok created=2146435072", "WARN, renew -> RENEWAL");
	T("renew ok", "make-path -> MAKE");
	to_try();
	T("list #2146435071 created=2146435072", "FAILED EBUSY, DONE -> IDLE");
	to_try();
	T("list ok created=2146435071", "create, list -> JOIN");
	T("create ok ours#2146435072", ""); /* another one came between */
	T("list #2146435072", "delete #2146435072, list -> RENEWAL");
	T("delete ok", "");
	T("list #2146435071 created=2146435073", "FAILED EBUSY, DONE -> IDLE");
	to_try();
	T("list x--000000005", "FAILED EEXHAUSTED, DONE -> IDLE");
}

static void try_that_may_not_list_fails(void)
{
	to_try();
	T("list denied", "FAILED EACCES, DONE -> IDLE");
	to_try();
	T("list refused", "FAILED EZK, DONE -> IDLE");
}

static void try_asks_again_after_a_reconnect(void)
{
	to_try();
	T("down", "");
	T("sync unknown", "");
	T("list unknown", "");
	T("up", "sync, list");
	T("old list #3", "");
	T("list ok", "create, list -> JOIN");
}

/* ---- unknown outcomes ------------------------------------------------------------------------------------------------------------ */

static void lost_create_is_looked_for_behind_a_barrier(void)
{
	to_adopt();
	T("barrier ok", "");
	T("list #3 ours#5", "find #5, list");
	T("find ok", "");
	T("list #3 #5", "WAITING 1, watch #5, watch #3 -> WAIT");
}

static void lost_create_that_was_not_made_is_made_anew(void)
{
	to_adopt();
	T("barrier ok", "");
	T("list #3", "create, list -> JOIN");
	T("create ok ours#6", "");
	T("list #3 #6", "WAITING 1, watch #6, watch #3 -> WAIT");
	to_adopt();
	T("barrier no-node", "");
	T("list no-node", "create, list -> JOIN");
}

/* CURATOR-604: after an expiry the list may still show the node of the session before. */
static void node_of_another_session_is_not_adopted(void)
{
	to_adopt();
	T("list ours#5", "find #5, list");
	T("find ok owner=76", "create+1, list -> JOIN");
	T("old list #5", "");
	T("create ok ours#6", "");
	T("list #5 #6", "WAITING 1, watch #6, watch #5 -> WAIT");
}

static void node_that_goes_before_it_is_found_is_made_anew(void)
{
	to_adopt();
	T("list ours#5", "find #5, list");
	T("find no-node", "create+1, list -> JOIN");
	T("old list ok", "");
}

static void node_that_goes_after_it_is_found_is_queued_for_again(void)
{
	to_adopt();
	T("list ours#5", "find #5, list");
	T("find ok", "");
	T("gone own #5", "REQUEUED, create+1, list -> JOIN");
	to_adopt();
	T("list ours#5", "find #5, list");
	T("find ok", "");
	T("list ok", "REQUEUED, create+1, list -> JOIN");
}

static void connection_that_breaks_while_adopting_begins_it_anew(void)
{
	to_adopt();
	T("down", "");
	T("barrier unknown", "");
	T("list unknown", "");
	T("up", "barrier, list");
	T("list ours#5", "find #5, list");
	T("down", "");
	T("find unknown", "");
	T("list unknown", "");
	T("up", "barrier, list");
	T("list #5", "find #5, list");
	T("find ok", "");
	T("down", "");
	T("list unknown", "");
	T("up", "watch #5, list -> RELIST");
	T("list #5", "GRANTED, SETTLE -> HELD");
}

static void list_of_the_old_connection_does_not_decide_a_lost_create(void)
{
	to_join();
	T("down", "");
	T("create unknown", "");
	T("up", "barrier, list -> ADOPT");
	T("old list #3", "");
	T("list #3 ours#5", "find #5, list");
}

static void list_of_a_broken_connection_is_nothing(void)
{
	to_join();
	T("create ok ours#5", "");
	T("down", "");
	T("list #5", "");
	T("up", "watch #5, list -> RELIST");
}

static void find_without_an_answer_decides_nothing(void)
{
	to_adopt();
	T("list ours#5", "find #5, list");
	T("find unknown", "");
	T("list unknown", "");
	T("down", "");
	T("up", "barrier, list");
}

static void lost_create_is_not_decided_before_the_reconnect(void)
{
	to_join();
	T("create unknown", "");
	T("list #3", "");
	T("down", "");
	T("up", "barrier, list -> ADOPT");
}

/* The connection broke between two requests: the create was only queued, and ran on the next one. */
static void create_that_ran_on_the_next_connection_is_known_by_its_reply(void)
{
	to_join();
	T("down", "");
	T("up", "barrier, list -> ADOPT");
	T("create ok ours#5", "");
	T("old list unknown", "");
	T("barrier ok", "");
	T("list #3 #5", "WAITING 1, watch #5, watch #3 -> WAIT");
	to_join();
	T("down", "");
	T("up", "barrier, list -> ADOPT");
	T("create no-node", "make-path -> MAKE");
	T("list no-node", "");
}

static void lost_create_of_an_expired_session_is_void(void)
{
	to_adopt();
	T("expired", "REQUEUED -> JOIN");
	T("up", "create+1, list");
	to_join();
	T("expired", "REQUEUED");
	T("create unknown", "");
	T("up", "create+1, list");
}

static void create_known_and_list_lost_lists_again(void)
{
	to_join();
	T("create ok ours#5", "");
	T("down", "");
	T("list unknown", "");
	T("up", "watch #5, list -> RELIST");
	T("watch ok", "");
	T("list #5", "GRANTED -> HELD");
}

/* ---- reconnect and expiry ---------------------------------------------------------------------------------------------------------- */

static void waiter_keeps_its_place_and_what_it_knows(void)
{
	to_wait_as_next();
	T("down", "");
	T("up", "watch #5, watch #3");
	T("old watch ok", "");
	T("watch ok", "");
	T("gone pred #3", "GRANTED, SETTLE -> HELD");
	to_wait();
	T("down", "");
	T("up", "watch #5, watch-mark #4");
	T("watch ok", "");
	T("watch-mark ok", "");
	T("gone pred #4", "list -> RELIST");
	/* The watch with which the mark was read is armed again by the client: one of the other kind would be one more. */
	to_wait();
	T("changed pred #4", "watch-mark #4");
	T("watch-mark ok marked", "");
	T("down", "");
	T("up", "watch #5, watch-mark #4");
	T("watch ok", "");
	T("watch-mark ok marked", "");
	T("gone pred #4", "GRANTED, SETTLE -> HELD");
}

static void predecessor_that_went_meanwhile_is_our_turn_if_it_was_the_lowest(void)
{
	to_wait_as_next();
	T("down", "");
	T("up", "watch #5, watch #3");
	T("old watch ok", "");
	T("watch no-node", "GRANTED, SETTLE -> HELD");
	to_wait();
	T("down", "");
	T("up", "watch #5, watch-mark #4");
	T("watch ok", "");
	T("watch-mark no-node", "list -> RELIST");
}

static void events_of_the_gap_prove_nothing(void)
{
	to_wait_as_next();
	T("down", "");
	T("gone pred #3", "");
	T("up", "watch #5, watch #3");
	T("old watch ok", "");
	T("watch ok", "");
	to_wait();
	T("down", "");
	T("changed pred #4", "");
	T("up", "watch #5, watch-mark #4");
}

/* Watches that were armed again fire in any order, so that the predecessor's end may come before our own. */
static void watch_of_the_old_connection_does_not_stand_for_our_node(void)
{
	to_wait_as_next();
	T("down", "");
	T("up", "watch #5, watch #3");
	T("gone pred #3", "");
	T("gone own #5", "REQUEUED, create+1, list -> JOIN");
	to_join();
	T("create ok ours#5", "");
	T("list #3 #5", "WAITING 1, watch #5, watch #3 -> WAIT");
	T("down", "");
	T("up", "watch #5, watch #3");
	T("gone pred #3", "");
	T("old watch no-node", "REQUEUED, create+1, list -> JOIN");
}

static void predecessor_gone_before_the_loss_is_asked_for_again(void)
{
	to_join();
	T("create ok ours#5", "");
	T("list #3 #5", "WAITING 1, watch #5, watch #3 -> WAIT");
	T("gone pred #3", "");
	T("down", "");
	T("up", "watch #5, watch #3");
	T("old watch ok", "");
	T("watch no-node", "GRANTED, SETTLE -> HELD");
}

static void own_node_gone_is_believed_at_any_time(void)
{
	to_wait_as_next();
	T("down", "");
	T("gone own #5", "REQUEUED -> JOIN");
	T("up", "create+1, list");
	to_held();
	T("down", "");
	T("gone own #5", "LOST -> LOST");
}

static void turn_that_came_before_the_loss_is_asked_for_again(void)
{
	to_entitled();
	T("down", "");
	world.lease_live = true;
	T("live", "");
	T("up", "watch #5, list -> RELIST");
	T("watch ok", "");
	T("list #5", "GRANTED, SETTLE -> HELD");
	to_relist();
	T("down", "");
	T("list unknown", "");
	T("up", "watch #5, list");
}

static void waiter_of_an_expired_session_goes_to_the_tail(void)
{
	static void (*const ways[])(void) = {to_wait, to_wait_as_next, to_relist, to_entitled};

	for (size_t i = 0; i < COUNT(ways); i++) {
		ways[i]();
		T("expired", "REQUEUED -> JOIN");
		world.session_id = 78;
		T("up", "create+1, list");
		T("create ok ours#9", "");
		T("list #3 #9", "WAITING 1, watch #9, watch #3 -> WAIT");
		CHECK_INT(world.contender.session_id, 78);
	}
}

static void who_has_not_queued_yet_is_not_requeued_by_an_expiry(void)
{
	begin(0);
	T("start", "-> JOIN");
	T("expired", "");
	T("up", "create, list");
	to_try();
	T("expired", "");
	T("up", "sync, list");
	to_make();
	T("expired", "");
	T("up", "make-path");
}

/* ---- leaving ------------------------------------------------------------------------------------------------------------------------ */

static void waiter_that_leaves_deletes_its_node(void)
{
	static void (*const ways[])(void) = {to_wait, to_wait_as_next, to_relist, to_entitled, to_held_after_waiting,
	                                     to_held, to_lost};

	for (size_t i = 0; i < COUNT(ways); i++) {
		ways[i]();
		T("leave", "delete #5 -> LEAVE");
		T("leave", "");
		T("delete ok", "DONE -> IDLE");
	}
}

static void node_that_is_gone_already_is_as_good_as_deleted(void)
{
	to_leave();
	T("gone own #5", "");
	T("delete no-node", "DONE -> IDLE");
}

static void delete_that_was_lost_is_sent_again(void)
{
	to_leave();
	T("down", "");
	T("delete unknown", "");
	T("up", "delete #5");
	T("delete no-node", "DONE -> IDLE");
}

/* The delete was only queued when the connection broke, and runs on the next one. */
static void delete_under_way_is_not_sent_twice(void)
{
	to_leave();
	T("down", "");
	T("up", "");
	T("delete ok", "DONE -> IDLE");
}

static void release_without_a_link_deletes_after_the_reconnect(void)
{
	to_held();
	T("down", "");
	T("leave", "-> LEAVE");
	T("up", "delete #5");
	T("delete ok", "DONE -> IDLE");
}

static void delete_that_is_refused_ends_with_an_error(void)
{
	to_leave();
	T("delete denied", "DONE EACCES -> IDLE");
	to_leave();
	T("delete refused", "DONE EZK -> IDLE");
}

static void expiry_ends_the_leaving(void)
{
	to_leave();
	T("expired", "DONE -> IDLE");
}

static void who_leaves_while_the_create_is_under_way_deletes_what_it_makes(void)
{
	to_join();
	T("leave", "-> LEAVE");
	T("create ok ours#5", "delete #5");
	T("list #5", "");
	T("delete ok", "DONE -> IDLE");
	to_join();
	T("leave", "-> LEAVE");
	T("create denied", "DONE -> IDLE");
	to_join();
	T("leave", "-> LEAVE");
	T("create exists", "DONE -> IDLE");
}

static void who_leaves_before_it_queued_leaves_no_trace(void)
{
	to_try();
	T("leave", "DONE -> IDLE");
	T("list ok", "");
	to_make();
	T("leave", "DONE -> IDLE");
	T("make-path ok", "");
}

/* kazoo #732, CURATOR-79: a create that is not decided is never forgotten. */
static void who_leaves_while_the_create_is_lost_looks_for_it(void)
{
	to_join();
	T("leave", "-> LEAVE");
	T("down", "");
	T("create unknown", "");
	T("up", "barrier, list");
	T("list #3 ours#5", "delete #5");
	T("delete ok", "DONE -> IDLE");
	to_adopt();
	T("leave", "barrier, list -> LEAVE");
	T("old list ours#5", "");
	T("list #5", "delete #5");
	to_adopt();
	T("list ours#5", "find #5, list");
	T("leave", "barrier, list -> LEAVE");
	T("find ok", "");
	T("old list #5", "");
	T("list #5", "delete #5");
	to_adopt();
	T("down", "");
	T("leave", "-> LEAVE");
	T("up", "barrier, list");
	T("list #3", "DONE -> IDLE");
}

static void who_leaves_looks_again_when_the_answer_is_lost(void)
{
	to_adopt();
	T("leave", "barrier, list -> LEAVE");
	T("down", "");
	T("barrier unknown", "");
	T("list unknown", "");
	T("up", "barrier, list");
	T("list no-node", "DONE -> IDLE");
}

static void who_leaves_and_may_not_look_says_so(void)
{
	to_adopt();
	T("leave", "barrier, list -> LEAVE");
	T("list denied", "DONE EACCES -> IDLE");
}

static void create_that_runs_on_the_next_connection_is_deleted_by_who_left(void)
{
	to_join();
	T("leave", "-> LEAVE");
	T("down", "");
	T("up", "");
	T("create ok ours#5", "delete #5");
	to_join();
	T("leave", "-> LEAVE");
	T("create unknown", "barrier, list");
	T("down", "");
	T("up", "barrier, list");
	T("list ours#5", "delete #5");
}

static void late_replies_after_leaving_mean_nothing(void)
{
	to_join();
	T("create ok ours#5", "");
	T("list #3 #4 #5", "WAITING 2, watch #5, watch-mark #4 -> WAIT");
	T("leave", "delete #5 -> LEAVE");
	T("watch ok", "");
	T("watch-mark ok marked", "");
	T("gone pred #4", "");
	T("changed pred #4", "");
	T("delete ok", "DONE -> IDLE");
	T("watch no-node", "");
	T("watch-mark no-node", "");
	T("gone own #5", "");
	to_join();
	T("create ok ours#5", "");
	T("list #3 #5", "WAITING 1, watch #5, watch #3 -> WAIT");
	T("leave", "delete #5 -> LEAVE");
	T("old watch denied", "");
	T("watch refused", "");
}

/* ---- what means nothing ------------------------------------------------------------------------------------------------------------ */

/* Everything that can come late, in every state, is ignored there. */
static void late_inputs_change_nothing(void)
{
	static const struct {
		void (*way)(void);
		const char *inputs[24];
	} cases[] = {
		{to_idle,
	         {"leave",         "gone own #5", "gone pred #3", "changed #3", "live",       "over",    "settled",
	          "create ok #5",  "list #5",     "make-path ok", "sync ok",    "barrier ok", "find ok", "watch ok",
	          "watch-mark ok", "mark ok",     "delete ok",    "down",       "up",         "expired"}},
		{to_try, {"live", "over", "settled", "sync ok", "sync denied"}},
		{to_make,
	         {"gone own #5", "gone pred #3", "changed #3", "live", "over", "settled", "create ok #9", "list #3",
	          "make-path unknown", "sync ok", "barrier ok", "find ok", "watch no-node", "watch-mark no-node",
	          "mark ok", "delete ok"}},
		{to_join,
	         {"gone pred #3", "changed #3", "live", "over", "settled", "make-path ok", "sync ok", "barrier ok",
	          "find ok", "watch no-node", "watch-mark no-node", "mark no-node", "delete ok"}},
		{to_adopt,
	         {"gone pred #3", "changed #3", "live", "over", "settled", "create unknown", "make-path ok", "sync ok",
	          "barrier ok", "barrier denied", "find ok", "watch no-node", "watch-mark no-node", "mark no-node",
	          "delete ok"}},
		{to_wait,
	         {"live", "over", "settled", "create ok #9", "list #9", "make-path ok", "sync ok", "barrier ok",
	          "find ok", "watch no-node", "old watch-mark no-node", "mark no-node", "delete ok", "delete denied"}},
		{to_relist,
	         {"gone pred #4", "changed #4", "live", "over", "settled", "create unknown", "make-path ok", "sync ok",
	          "barrier ok", "find no-node", "watch ok", "watch-mark no-node", "mark no-node", "delete ok"}},
		{to_entitled,
	         {"gone pred #3", "changed #3", "over", "settled", "create unknown", "list #9", "make-path ok",
	          "sync ok", "barrier ok", "find ok", "watch no-node", "watch-mark no-node", "mark no-node",
	          "delete ok"}},
		{to_held,
	         {"gone pred #3", "changed #5", "live", "settled", "create unknown", "list #9", "list denied",
	          "make-path denied", "sync ok", "barrier ok", "find ok", "watch no-node", "watch-mark no-node",
	          "delete ok"}},
		{to_lost,
	         {"gone pred #3", "changed #5", "live", "over", "settled", "create unknown", "list #9", "make-path ok",
	          "sync ok", "barrier ok", "find ok", "watch no-node", "watch-mark no-node", "mark no-node",
	          "delete ok", "down", "up"}},
		{to_leave,
	         {"leave", "gone own #5", "gone pred #3", "changed #5", "live", "over", "settled", "create unknown",
	          "list #9", "make-path no-node", "sync ok", "barrier ok", "find ok", "watch no-node",
	          "watch-mark no-node", "mark no-node"}},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		for (size_t j = 0; j < COUNT(cases[i].inputs) && cases[i].inputs[j]; j++) {
			cases[i].way();
			T(cases[i].inputs[j], "");
		}
	}
}

/* ---- random inputs ----------------------------------------------------------------------------------------------------------------- */

struct fuzz {
	uint64_t          seed;
	struct zkl__input input;
	struct zkl__reply reply;
	char              name[WORDS_NAME];
	bool              undecided; /* a create is under way, or was lost and not looked for */
	bool              over;
	unsigned          granted, lost, done;
	const char       *wrong;
};

static void random_reply(struct fuzz *f)
{
	static const char *const lists[] = {"#3 #5",
	                                    "#5",
	                                    "#3 #4 #5",
	                                    "#3",
	                                    "",
	                                    "no-node",
	                                    "#5 #6",
	                                    "over",
	                                    "long#3 #5",
	                                    "kazoo#3 #5",
	                                    "#5 created=2146435072"};
	enum zkl__op             op = (enum zkl__op)(ZKL__CREATE + check_below(&f->seed, ZKL__RENEW));
	char                     text[80] = "";

	f->input.type = ZKL__IN_REPLY;
	f->input.reply = &f->reply;
	if (op == ZKL__CREATE)
		snprintf(text, sizeof text, "ours#%d", 5 + (int)check_below(&f->seed, 2));
	else if (op == ZKL__LIST)
		snprintf(text, sizeof text, "%s", lists[check_below(&f->seed, COUNT(lists))]);
	reply_from(&f->reply, op, check_below(&f->seed, 8) == 0, text);
	if (check_below(&f->seed, 3) == 0)
		f->reply.result = (enum zkl__result)check_below(&f->seed, ZKL__REFUSED + 1);
	f->reply.marked = check_below(&f->seed, 3) == 0;
	if (check_below(&f->seed, 10) == 0)
		f->reply.owner++;
}

static void random_input(struct fuzz *f)
{
	static const enum zkl__input_type types[] = {ZKL__IN_LINK_UP,    ZKL__IN_LINK_DOWN,  ZKL__IN_EXPIRED,
	                                             ZKL__IN_GONE,       ZKL__IN_CHANGED,    ZKL__IN_GONE,
	                                             ZKL__IN_LEASE_LIVE, ZKL__IN_LEASE_OVER, ZKL__IN_SETTLED};
	static const char *const          nodes[] = {"#3", "#4", "#5", "#6"};

	f->input = (struct zkl__input){.lease_live = check_below(&f->seed, 3) > 0, .session_id = 77};
	if (check_below(&f->seed, 3)) {
		random_reply(f);
		return;
	}
	f->input.type = types[check_below(&f->seed, COUNT(types))];
	if (check_below(&f->seed, 40) == 0)
		f->input.type = ZKL__IN_LEAVE;
	words_name(&world.words, f->name, nodes[check_below(&f->seed, 4)], world.asked[ZKL__CREATE]);
	f->input.name = f->name;
}

/* What may make it our turn, seen from before the step. */
static bool may_be_granted(const struct fuzz *f, const struct zkl__contender *c)
{
	const struct zkl__reply *r = f->input.reply;
	bool                     own = r && r->id == c->own_watch && r->result == ZKL__DONE;
	bool                     predecessor = r && r->id == c->predecessor_watch;
	bool gone = c->gone || (predecessor && r->result == ZKL__NO_NODE) || f->input.type == ZKL__IN_GONE;

	if (!f->input.lease_live)
		return false;
	if (c->state == ZKL__ENTITLED && f->input.type == ZKL__IN_LEASE_LIVE)
		return true;
	if (r && r->op == ZKL__LIST && r->id == c->list)
		return r->queue.mine && !r->queue.ahead && !r->queue.overrun;
	return c->state == ZKL__WAIT && c->link && gone && (c->watched || own) &&
	       (c->next || (predecessor && r->marked));
}

static void look_at(struct fuzz *f, const struct zkl__action *action, const struct zkl__contender *before)
{
	if (f->over)
		f->wrong = "something after the end";
	if (action->type == ZKL__SEND && action->request.op == ZKL__CREATE) {
		if (f->undecided)
			f->wrong = "a create while another one is not decided";
		f->undecided = true;
	}
	if (action->type == ZKL__TELL_GRANTED && (f->granted++ || !may_be_granted(f, before)))
		f->wrong = "granted without a reason, or twice";
	if (action->type == ZKL__TELL_LOST && (!f->granted || f->lost++))
		f->wrong = "lost what is not held";
	if (action->type == ZKL__TELL_FAILED && f->granted)
		f->wrong = "failed after the grant";
	if (action->type == ZKL__TELL_DONE && f->done++)
		f->wrong = "done twice";
	if (action->type == ZKL__SEND && action->request.op == ZKL__MARK &&
	    (before->state != ZKL__HELD || !before->waited))
		f->wrong = "marked by who does not hold, or has not waited";
}

/* Is a create decided by this input? */
static void decide(struct fuzz *f, const struct zkl__contender *before)
{
	const struct zkl__reply *r = f->input.reply;

	if (f->input.type == ZKL__IN_EXPIRED)
		f->undecided = false;
	if (!r || r->result == ZKL__UNKNOWN)
		return;
	if ((r->op == ZKL__CREATE && r->id == before->create) || (r->op == ZKL__FIND && r->id == before->find))
		f->undecided = false;
	if (r->op == ZKL__LIST && r->id == before->list && !before->create && !r->queue.mine)
		f->undecided = false;
}

static void fuzz(uint64_t seed)
{
	static const unsigned flags[] = {0, 0, ZKL__CONTENDER_TRY, ZKL__CONTENDER_NO_REQUEUE, ZKL__CONTENDER_NO_MARK};
	struct fuzz           f = {.seed = seed};

	begin(flags[check_below(&f.seed, COUNT(flags))]);
	for (int i = 0; i < 80 && !f.wrong; i++) {
		struct zkl__contender before = world.contender;
		struct zkl__actions   actions;
		char                  text[600] = "";

		random_input(&f);
		if (i == 0)
			f.input = (struct zkl__input){.type = ZKL__IN_LINK_UP, .session_id = 77};
		if (i == 1)
			f.input = (struct zkl__input){.type = ZKL__IN_START, .uuid = world.uuid};
		decide(&f, &before);
		zkl__contender_step(&world.contender, &f.input, &actions);
		if (actions.count > ZKL__ACTIONS_MAX)
			f.wrong = "too many actions";
		for (unsigned j = 0; j < actions.count && !f.wrong; j++) {
			look_at(&f, &actions.list[j], &before);
			if (actions.list[j].type == ZKL__TELL_GRANTED)
				world.contender.predecessor = NULL;
			print_action(text, sizeof text, &actions.list[j]);
		}
		f.over = f.done;
	}
	if (f.wrong)
		FAIL("seed %" PRIu64 ": %s", seed, f.wrong);
}

static void random_inputs_break_no_rule(void)
{
	unsigned before = CU_get_number_of_failures();
	uint64_t rounds = check_rounds(5000, 100000);

	for (uint64_t seed = 0; seed < rounds && CU_get_number_of_failures() == before; seed++)
		fuzz(seed);
}

/* ---- every arrow ------------------------------------------------------------------------------------------------------------------- */

/* x: it can come in this state, be it late, and some transcript above must have had it. Replies may be to anything that was
 * asked earlier in the attempt. */
static void every_input_was_seen_in_every_state_where_it_can_come(void)
{
	static const struct {
		enum zkl__state state;
		const char     *row;
	} rows[] = {
		/* start leave up down expired | gone own, gone pred, changed | live over settled |
	         * create list make-path sync barrier find watch watch-mark mark delete renew */
		{ZKL__IDLE, "xxxxx xxx xxx xxxxxxxxxx"},
		{ZKL__TRY, ".xxxx ... xxx .x.x......"}, /* an attempt begins with it: nothing else was asked */
		{ZKL__MAKE, ".xxxx xxx xxx xxxxxxxxxx"},
		{ZKL__RENEWAL, ".xxxx xxx ... .x....x..xx"},
		{ZKL__JOIN, ".xxxx xxx xxx xxxxxxxxxx"},
		{ZKL__ADOPT, ".xxxx xxx xxx xxxxxxxxxx"},
		{ZKL__WAIT, ".xxxx xxx xxx xxxxxxxxxx"},
		{ZKL__RELIST, ".xxxx xxx xxx xxxxxxxxxx"},
		{ZKL__ENTITLED, ".xxxx xxx xxx xxxxxxxxxx"},
		{ZKL__HELD, ".xxxx xxx xxx xxxxxxxxxx"},
		{ZKL__LOST, ".xxxx xxx xxx xxxxxxxxxx"},
		{ZKL__LEAVE, ".xxxx xxx xxx xxxxxxxxxx"},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		const char *cell = rows[i].row;

		for (unsigned column = 0; columns[column]; column++, cell++) {
			cell += *cell == ' ';
			if (*cell == 'x' && !seen[rows[i].state][column])
				FAIL("no transcript has \"%s\" in %s", columns[column], zkl__state_name(rows[i].state));
		}
	}
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = {
		TEST(free_lock_is_granted_after_one_round_trip),
		TEST(start_without_a_link_waits_for_it),
		TEST(start_without_a_link_is_left_without_a_trace),
		TEST(waiter_watches_its_own_node_before_the_predecessor),
		TEST(missing_directory_is_made_and_the_pair_sent_again),
		TEST(directory_that_somebody_else_made_is_as_good),
		TEST(directory_that_vanishes_again_is_made_again),
		TEST(missing_chroot_is_never_made),
		TEST(directory_that_may_not_be_made_fails),
		TEST(lost_make_path_is_sent_again),
		TEST(make_path_answered_twice_joins_once),
		TEST(ephemeral_parent_is_a_bad_path),
		TEST(credentials_that_are_no_identity_are_not_permitted),
		TEST(create_that_is_not_permitted_fails_without_a_trace),
		TEST(list_that_is_not_permitted_fails_and_the_node_goes),
		TEST(create_that_exists_is_tried_again_three_times_with_another_name),
		TEST(foreign_contender_blocks_and_is_logged_once),
		TEST(node_in_front_that_no_session_ends_is_logged_once),
		TEST(candidate_in_front_in_a_locks_directory_is_a_clear_error),
		TEST(children_that_are_no_contenders_are_ignored),
		TEST(second_node_of_ours_is_deleted),
		TEST(contender_with_a_name_too_long_to_watch_fails),
		TEST(place_lost_before_the_list_is_queued_for_again),
		TEST(no_requeue_fails_when_the_place_is_lost),
		TEST(predecessor_gone_and_known_lowest_grants_without_a_read),
		TEST(predecessor_gone_and_not_known_lowest_lists_once),
		TEST(predecessor_gone_waits_for_the_watch_on_our_own_node),
		TEST(predecessor_gone_and_not_known_lowest_waits_for_our_own_watch_too),
		TEST(own_node_gone_before_the_predecessor_is_never_granted),
		TEST(predecessor_that_went_before_its_watch_counts_as_gone),
		TEST(mark_in_the_first_read_makes_us_next),
		TEST(mark_is_seen_by_a_change_and_a_read),
		TEST(change_without_the_mark_proves_nothing),
		TEST(change_behind_the_mark_is_watched_again),
		TEST(only_the_newest_read_of_the_predecessor_counts),
		TEST(older_list_is_ignored),
		TEST(strangers_nodes_mean_nothing),
		TEST(waiter_whose_node_is_gone_goes_to_the_tail),
		TEST(node_that_may_not_be_read_fails),
		TEST(our_turn_without_a_lease_proves_first),
		TEST(proof_that_comes_too_late_grants_nothing),
		TEST(lowest_in_the_list_without_a_lease_proves_first),
		TEST(list_without_a_lease_is_sent_together_with_a_proof),
		TEST(only_holder_and_next_want_the_lease),
		TEST(holder_of_a_free_lock_sets_its_watch_later_and_does_not_mark),
		TEST(holder_that_waited_marks_once),
		TEST(election_never_marks),
		TEST(mark_that_was_lost_is_repeated),
		TEST(mark_under_way_is_not_repeated),
		TEST(mark_is_not_sent_without_a_link),
		TEST(mark_that_is_refused_is_not_repeated),
		TEST(holder_whose_node_is_gone_loses_once),
		TEST(holder_whose_lease_is_over_keeps_its_node_until_it_leaves),
		TEST(lost_holder_whose_node_goes_has_nothing_to_delete),
		TEST(holder_watches_its_own_node_again_after_a_reconnect),
		TEST(holder_that_cannot_be_watched_is_logged_and_holds_on),
		TEST(token_counts_on_from_the_birth_of_the_directory),
		TEST(token_that_would_not_grow_is_refused),
		TEST(number_at_the_end_is_given_back_and_the_empty_directory_made_anew),
		TEST(number_before_the_end_is_granted),
		TEST(those_before_the_end_finish_first),
		TEST(directory_that_another_made_anew_is_joined),
		TEST(directory_that_is_not_empty_any_more_is_waited_for_again),
		TEST(directory_that_cannot_be_made_anew_ends_the_attempt),
		TEST(contenders_who_stay_behind_the_end_are_not_waited_for_for_ever),
		TEST(renewal_goes_on_after_a_reconnect),
		TEST(renewal_goes_on_in_a_new_session),
		TEST(who_leaves_during_a_renewal_leaves_no_trace),
		TEST(number_that_ran_over_is_given_back_by_its_name),
		TEST(child_whose_number_ran_over_ends_the_attempt),
		TEST(try_of_a_busy_lock_costs_a_read_and_writes_nothing),
		TEST(try_of_a_free_lock_joins),
		TEST(try_that_is_overtaken_after_its_create_leaves),
		TEST(try_without_a_directory_makes_it),
		TEST(try_near_the_end_of_the_sequence_creates_nothing),
		TEST(try_that_may_not_list_fails),
		TEST(try_asks_again_after_a_reconnect),
		TEST(lost_create_is_looked_for_behind_a_barrier),
		TEST(lost_create_that_was_not_made_is_made_anew),
		TEST(node_of_another_session_is_not_adopted),
		TEST(node_that_goes_before_it_is_found_is_made_anew),
		TEST(node_that_goes_after_it_is_found_is_queued_for_again),
		TEST(connection_that_breaks_while_adopting_begins_it_anew),
		TEST(list_of_the_old_connection_does_not_decide_a_lost_create),
		TEST(list_of_a_broken_connection_is_nothing),
		TEST(find_without_an_answer_decides_nothing),
		TEST(lost_create_is_not_decided_before_the_reconnect),
		TEST(create_that_ran_on_the_next_connection_is_known_by_its_reply),
		TEST(lost_create_of_an_expired_session_is_void),
		TEST(create_known_and_list_lost_lists_again),
		TEST(waiter_keeps_its_place_and_what_it_knows),
		TEST(predecessor_that_went_meanwhile_is_our_turn_if_it_was_the_lowest),
		TEST(events_of_the_gap_prove_nothing),
		TEST(watch_of_the_old_connection_does_not_stand_for_our_node),
		TEST(predecessor_gone_before_the_loss_is_asked_for_again),
		TEST(own_node_gone_is_believed_at_any_time),
		TEST(turn_that_came_before_the_loss_is_asked_for_again),
		TEST(waiter_of_an_expired_session_goes_to_the_tail),
		TEST(who_has_not_queued_yet_is_not_requeued_by_an_expiry),
		TEST(waiter_that_leaves_deletes_its_node),
		TEST(node_that_is_gone_already_is_as_good_as_deleted),
		TEST(delete_that_was_lost_is_sent_again),
		TEST(delete_under_way_is_not_sent_twice),
		TEST(release_without_a_link_deletes_after_the_reconnect),
		TEST(delete_that_is_refused_ends_with_an_error),
		TEST(expiry_ends_the_leaving),
		TEST(who_leaves_while_the_create_is_under_way_deletes_what_it_makes),
		TEST(who_leaves_before_it_queued_leaves_no_trace),
		TEST(who_leaves_while_the_create_is_lost_looks_for_it),
		TEST(who_leaves_looks_again_when_the_answer_is_lost),
		TEST(who_leaves_and_may_not_look_says_so),
		TEST(create_that_runs_on_the_next_connection_is_deleted_by_who_left),
		TEST(late_replies_after_leaving_mean_nothing),
		TEST(late_inputs_change_nothing),
		TEST(random_inputs_break_no_rule),
		TEST(every_input_was_seen_in_every_state_where_it_can_come),
		{0}};

	return check_main("contender", tests, argc, argv);
}
