/* SPDX-License-Identifier: Apache-2.0 */
#include "run_options.h"
#include "duration.h"
#include "lease.h"
#include "session_options.h"
#include "status.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zklock/zklock.h>

#define DEFAULT_CONNECT_MS 30000
#define MS                 INT64_C(1000000) /* in ns */
#define NAME_LENGTH_MAX    64
#define CANDIDATES_SIZE    256

const char zkl__run_help[] =
	"Usage: zklock-run [OPTION...] PATH [--] COMMAND [ARG...]\n"
	"Run COMMAND while holding the lock PATH on a ZooKeeper ensemble, never longer.\n"
	"\n"
	"  -s, --servers=SERVERS          \"host:port,host:port/chroot\"; else ZKLOCK_SERVERS in\n"
	"                                 the environment, else in /etc/zklock.conf\n"
	"      --auth-file=FILE           lines such as digest:user:password, for the servers;\n"
	"                                 else ZKLOCK_AUTH_FILE, as above\n"
	"  -n, --nonblock                 do not wait for a lock that is held by another; for a server\n"
	"                                 as long as --connect-timeout\n"
	"  -w, --wait=DURATION            wait so long at most, connecting included\n"
	"  -E, --conflict-exit-code=CODE  exit status where the lock is held by another (75)\n"
	"      --connect-timeout=DURATION give up where no server is reached (30s)\n"
	"      --min-hold=DURATION        hold the lock so long at least\n"
	"      --max-hold=DURATION        end COMMAND so long after the grant\n"
	"      --wait-all                 wait for what COMMAND leaves behind, do not end it\n"
	"      --leader                   PATH is an election: run COMMAND whenever elected, until\n"
	"                                 told to stop; without -n -w -E --min-hold\n"
	"  -T, --session-timeout=DURATION after which the servers give up a holder that they\n"
	"                                 do not hear of (10s)\n"
	"      --margin=DURATION          of T, before which the lease ends (3/8 of T, at most 5/8)\n"
	"  -k, --kill-after=DURATION      between TERM and KILL, whenever COMMAND or what it left\n"
	"                                 behind is ended (T/8, at most T/4)\n"
	"      --pidns                    run COMMAND in a PID namespace, which nothing that it\n"
	"                                 starts outlives, whatever happens to zklock-run\n"
	"      --name=NAME                what others are told of who holds or waits\n"
	"  -v, --verbose                  say who holds it, our place, the token, and what ended\n"
	"  -q, --quiet                    say nothing but what failed\n"
	"      --help, --version\n"
	"\n"
	"Options end at PATH. A DURATION is in seconds, with fractions, or ends in ms, s, m or h.\n"
	"COMMAND finds ZKLOCK_PATH, ZKLOCK_TOKEN, ZKLOCK_EPOCH and ZKLOCK_NODE in its environment.\n"
	"\n"
	"Exit status: that of COMMAND; 64 usage; 69 no ensemble reached; 75 (-E) held by another;\n"
	"76 lock lost, COMMAND was ended; 77 permission; 78 --max-hold ended COMMAND; 125 zklock-run\n"
	"failed; 126 COMMAND cannot be executed; 127 not found.\n";

/* ---- the command line ---- */

enum {
	OPTION_AUTH_FILE = 256,
	OPTION_CONNECT,
	OPTION_MIN_HOLD,
	OPTION_MAX_HOLD,
	OPTION_WAIT_ALL,
	OPTION_LEADER,
	OPTION_MARGIN,
	OPTION_NAME,
	OPTION_PIDNS,
	OPTION_HELP,
	OPTION_VERSION
};

static const struct option long_options[] = {
	{"servers", required_argument, NULL, 's'},
	{"nonblock", no_argument, NULL, 'n'},
	{"wait", required_argument, NULL, 'w'},
	{"conflict-exit-code", required_argument, NULL, 'E'},
	{"session-timeout", required_argument, NULL, 'T'},
	{"kill-after", required_argument, NULL, 'k'},
	{"connect-timeout", required_argument, NULL, OPTION_CONNECT},
	{"auth-file", required_argument, NULL, OPTION_AUTH_FILE},
	{"min-hold", required_argument, NULL, OPTION_MIN_HOLD},
	{"max-hold", required_argument, NULL, OPTION_MAX_HOLD},
	{"wait-all", no_argument, NULL, OPTION_WAIT_ALL},
	{"leader", no_argument, NULL, OPTION_LEADER},
	{"margin", required_argument, NULL, OPTION_MARGIN},
	{"name", required_argument, NULL, OPTION_NAME},
	{"pidns", no_argument, NULL, OPTION_PIDNS},
	{"verbose", no_argument, NULL, 'v'},
	{"quiet", no_argument, NULL, 'q'},
	{"help", no_argument, NULL, OPTION_HELP},
	{"version", no_argument, NULL, OPTION_VERSION},
	{NULL, 0, NULL, 0},
};

#define WRONG(...) (snprintf(why, ZKL__WHY_MAX, __VA_ARGS__), -1)

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int parse_status(const char *text, int *ret, char *why)
{
	char *end;
	long  value = is_digit(text[0]) ? strtol(text, &end, 10) : -1;

	if (value < 0 || value > 255 || *end != '\0')
		return WRONG("-E: \"%.200s\" is not an exit status: give a number from 0 to 255", text);
	*ret = (int)value;
	return 0;
}

/* What others can be shown as it is. */
static int parse_name(const char *text, const char **ret, char *why)
{
	const size_t length = strlen(text);

	for (size_t i = 0; i < length; i++) {
		if (text[i] < ' ' || text[i] > '~' || text[i] == '\\')
			return WRONG("--name: \"%.200s\" has more than printable ASCII without backslashes", text);
	}
	if (length == 0 || length > NAME_LENGTH_MAX)
		return WRONG("--name: give 1 to %d characters, not %zu", NAME_LENGTH_MAX, length);
	*ret = text;
	return 0;
}

static int parse_text(const char *option, const char *text, const char *what, const char **ret, char *why)
{
	*ret = text;
	return text[0] != '\0' ? 0 : WRONG("%s: no %s given", option, what);
}

/* What is given, before defaults that depend on each other. */
struct given {
	bool        nonblock, wait;
	const char *not_leading; /* the last option that has no meaning for who leads; NULL: none */
};

static int parse_option(int option, struct zkl__run_options *ret, struct given *given, char *why)
{
	switch (option) {
	case 's':
		return parse_text("-s", optarg, "server", &ret->servers, why);
	case OPTION_AUTH_FILE:
		return parse_text("--auth-file", optarg, "file", &ret->auth_file, why);
	case 'n':
		given->nonblock = true;
		given->not_leading = "-n";
		ret->wait_ms = 0;
		return 0;
	case 'w':
		given->wait = true;
		given->not_leading = "-w";
		return zkl__duration_option("-w", optarg, 0, &ret->wait_ms, why);
	case 'E':
		given->not_leading = "-E";
		return parse_status(optarg, &ret->busy_status, why);
	case 'T':
		return zkl__duration_option("-T", optarg, ZKL__LEAST_TIMEOUT_MS, &ret->timeout_ms, why);
	case 'k':
		ret->grace_given = true;
		return zkl__duration_option("-k", optarg, 0, &ret->grace_ms, why);
	case OPTION_CONNECT:
		return zkl__duration_option("--connect-timeout", optarg, 1, &ret->connect_ms, why);
	case OPTION_MIN_HOLD:
		given->not_leading = "--min-hold";
		return zkl__duration_option("--min-hold", optarg, 0, &ret->min_hold_ms, why);
	case OPTION_MAX_HOLD:
		return zkl__duration_option("--max-hold", optarg, 1, &ret->max_hold_ms, why);
	case OPTION_MARGIN:
		return zkl__duration_option("--margin", optarg, 1, &ret->margin_ms, why);
	case OPTION_NAME:
		return parse_name(optarg, &ret->name, why);
	case OPTION_WAIT_ALL:
		ret->wait_all = true;
		return 0;
	case OPTION_LEADER:
		ret->leader = true;
		return 0;
	case OPTION_PIDNS:
		ret->pidns = true;
		return 0;
	case 'v':
		ret->verbose = true;
		return 0;
	case 'q':
		ret->quiet = true;
		return 0;
	case OPTION_HELP:
		ret->what = ZKL__RUN_HELP;
		return 0;
	default:
		ret->what = ZKL__RUN_VERSION;
		return 0;
	}
}

/* All that a cut one may be short for. */
static void name_candidates(const char *cut, size_t length, char ret[CANDIDATES_SIZE])
{
	size_t used = 0;

	ret[0] = '\0';
	for (const struct option *each = long_options; each->name != NULL && used < CANDIDATES_SIZE; each++) {
		if (strncmp(each->name, cut, length) == 0)
			used += (size_t)snprintf(ret + used, CANDIDATES_SIZE - used, "%s--%s", used > 0 ? ", " : "",
			                         each->name);
	}
}

/* A long option that was refused; it may be cut, and have a value behind it. */
static int refuse_long(const char *argument, char *why)
{
	const char  *name = argument + strlen("--");
	const size_t length = strcspn(name, "=");
	char         candidates[CANDIDATES_SIZE];

	name_candidates(name, length, candidates);
	if (candidates[0] == '\0')
		return WRONG("option \"%.200s\" is unknown: see zklock-run --help", argument);
	if (optopt != 0)
		return WRONG("option \"%.200s\" takes no value: see zklock-run --help", argument);
	return WRONG("option \"--%.*s\" may be %s: see zklock-run --help", (int)length, name, candidates);
}

static int refuse_option(int kind, const char *argument, char *why)
{
	const bool  is_long = strncmp(argument, "--", 2) == 0;
	const char *wrong = kind == ':' ? "needs a value" : "is unknown";

	if (!is_long && optopt > ' ' && optopt <= '~')
		return WRONG("option \"-%c\" %s: see zklock-run --help", optopt, wrong);
	if (is_long && kind != ':')
		return refuse_long(argument, why);
	return WRONG("option \"%.200s\" %s: see zklock-run --help", argument, wrong);
}

static int fit_margin(int64_t margin_ms, const struct zkl__lease_limits *limits, int64_t timeout_ms,
                      const char *timeout, char *why)
{
	if (limits->stop_max >= 0)
		return 0;
	return WRONG("--margin: %" PRId64 " ms does not fit into %s %" PRId64 " ms: give from %" PRId64 " to %" PRId64
	             " ms",
	             margin_ms, timeout, timeout_ms, (limits->margin_min + MS - 1) / MS, limits->margin_max / MS);
}

static int fit_both(int64_t grace_ms, int64_t margin_ms, const struct zkl__lease_limits *limits, int64_t timeout_ms,
                    const char *timeout, char *why)
{
	const int64_t most = margin_ms + limits->stop_max / MS;

	if (grace_ms + margin_ms <= most)
		return 0;
	return WRONG("-k and --margin: together %" PRId64 " ms do not fit into %s %" PRId64 " ms: at most %" PRId64
	             " ms, or a longer -T",
	             grace_ms + margin_ms, timeout, timeout_ms, most);
}

int zkl__run_options_fit(const struct zkl__run_options *options, int64_t timeout_ms, bool granted, char *why)
{
	const char   *timeout = granted ? "the session timeout that the servers granted," : "a session timeout of";
	const int64_t most = timeout_ms / ZKL__GRACE_MOST_PART;
	const struct zkl__lease_options lease = {.margin_ns = options->margin_ms * MS};
	struct zkl__lease_limits        limits;

	zkl__lease_limits(&lease, timeout_ms * MS, &limits);
	if (options->grace_given && options->grace_ms > most)
		return WRONG("-k: a grace of %" PRId64 " ms does not fit into %s %" PRId64
		             " ms: at most a quarter of it, %" PRId64 " ms, or %s",
		             options->grace_ms, timeout, timeout_ms, most,
		             granted ? "servers that grant a longer one (maxSessionTimeout)" : "a longer -T");
	if (fit_margin(options->margin_ms, &limits, timeout_ms, timeout, why) < 0)
		return -1;
	return options->grace_given && options->margin_ms > 0
	               ? fit_both(options->grace_ms, options->margin_ms, &limits, timeout_ms, timeout, why)
	               : 0;
}

/* What the options mean together. */
static int settle(struct zkl__run_options *ret, const struct given *given, char *why)
{
	if (given->nonblock && given->wait)
		return WRONG("-n and -w exclude each other");
	if (ret->leader && given->not_leading != NULL)
		return WRONG("--leader campaigns until told to stop: %s has no meaning with it", given->not_leading);
	if (ret->verbose && ret->quiet)
		return WRONG("-v and -q exclude each other");
	if (ret->timeout_ms > ZKL__MOST_TIMEOUT_MS)
		return WRONG("-T: more than a day, %d ms", ZKL__MOST_TIMEOUT_MS);
	if (ret->max_hold_ms > 0 && ret->max_hold_ms < ret->min_hold_ms)
		return WRONG("--max-hold is less than --min-hold");
	if (!ret->grace_given)
		ret->grace_ms = ret->timeout_ms / ZKL__GRACE_PART;
	return zkl__run_options_fit(ret, ret->timeout_ms, false, why);
}

#define FORM "zklock-run [OPTION...] PATH [--] COMMAND [ARG...]"

/* PATH [--] COMMAND [ARG...]. What does not begin with "/" may be a PATH without it, or a COMMAND without a PATH. */
static int parse_operands(char **operands, struct zkl__run_options *ret, char *why)
{
	if (operands[0] == NULL)
		return WRONG("no PATH given: " FORM);
	ret->path = operands[0];
	if (ret->path[0] != '/')
		return WRONG("PATH begins with \"/\", and \"%.120s\" does not: did you mean \"/%.120s\"? " FORM,
		             ret->path, ret->path);
	operands++;
	if (operands[0] != NULL && strcmp(operands[0], "--") == 0)
		operands++;
	else if (operands[0] != NULL && operands[0][0] == '-')
		return WRONG("\"%.200s\" comes behind PATH, and options before it: " FORM, operands[0]);
	if (operands[0] == NULL)
		return WRONG("no COMMAND given: " FORM);
	ret->command = operands;
	return 0;
}

int zkl__run_options_parse(int argc, char **argv, struct zkl__run_options *ret, char *why)
{
	struct given given = {0};

	*ret = (struct zkl__run_options){.wait_ms = ZKL_FOREVER,
	                                 .timeout_ms = ZKL__DEFAULT_TIMEOUT_MS,
	                                 .connect_ms = DEFAULT_CONNECT_MS,
	                                 .busy_status = ZKL__STATUS_BUSY};
	optind = 0; /* glibc: begin anew */
	opterr = 0;
	for (int option, at = 1; (option = getopt_long(argc, argv, "+:s:nw:E:T:k:vq", long_options, NULL)) != -1;
	     at = optind) {
		if (option == '?' || option == ':')
			return refuse_option(option, argv[at], why);
		if (parse_option(option, ret, &given, why) < 0)
			return -1;
		if (ret->what != ZKL__RUN_COMMAND)
			return 0;
	}
	if (settle(ret, &given, why) < 0)
		return -1;
	return parse_operands(argv + optind, ret, why);
}
