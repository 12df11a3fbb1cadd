/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of zklock-run say. */
#include "../../zklock/run_config.h"
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char why[ZKL__WHY_MAX];

/* ---- the configuration ---- */

/* What the text gives as "servers|credentials' file"; "wrong", and `why` says what. */
static const char *configured(const char *text, size_t length)
{
	static char        found[128];
	struct zkl__config config;

	if (zkl__config_parse(text, length, &config, why) < 0)
		return "wrong";
	snprintf(found, sizeof(found), "%s|%s", config.servers == NULL ? "none" : config.servers,
	         config.auth_file == NULL ? "none" : config.auth_file);
	zkl__config_clear(&config);
	return found;
}
#define CONFIGURES(text, expected) CU_ASSERT_STRING_EQUAL(configured((text), sizeof(text) - 1), (expected))
#define MALFORMED(text, part)                                                                                          \
	do {                                                                                                           \
		CONFIGURES(text, "wrong");                                                                             \
		CU_ASSERT_PTR_NOT_NULL(strstr(why, (part)));                                                           \
	} while (0)

static void configuration_names_servers_and_credentials(void)
{
	CONFIGURES("ZKLOCK_SERVERS=h:1,h:2/c\n", "h:1,h:2/c|none");
	CONFIGURES("# ours\n\n  ZKLOCK_SERVERS = h:1 \r\n\t# end", "h:1|none");
	CONFIGURES("ZKLOCK_SERVERS=\"h:1\"", "h:1|none");
	CONFIGURES("ZKLOCK_AUTH_FILE=/a/b", "none|/a/b");
	CONFIGURES("ZKLOCK_AUTH_FILE = '/a b'\nZKLOCK_SERVERS=h:1\n", "h:1|/a b");
	CONFIGURES("# none\n", "none|none");
	CONFIGURES("", "none|none");
	CONFIGURES("\xef\xbb\xbfZKLOCK_SERVERS=h:1\n", "h:1|none"); /* a byte order mark */
	CONFIGURES("\xef\xbb\xbf", "none|none");
}

static void malformed_configuration_is_refused_by_line(void)
{
	MALFORMED("ZKLOCK_SERVERS", "line 1: not KEY=VALUE");
	MALFORMED("# a\nZKLOCK_SERVERS=h:1\nnonsense\n", "line 3: not KEY=VALUE");
	MALFORMED("\nZKLOCK_SERVER=h:1\n",
	          "line 2: unknown key \"ZKLOCK_SERVER\": there are ZKLOCK_SERVERS and ZKLOCK_AUTH_FILE");
	MALFORMED("ZKLOCK_SERVERS=h:1\n\nZKLOCK_SERVERS=h:1\n", "line 3: ZKLOCK_SERVERS is given twice");
	MALFORMED("ZKLOCK_AUTH_FILE=/a\nZKLOCK_SERVERS=h:1\nZKLOCK_AUTH_FILE=/b\n",
	          "line 3: ZKLOCK_AUTH_FILE is given twice");
	MALFORMED("ZKLOCK_SERVERS=\n", "line 1: ZKLOCK_SERVERS has no value");
	MALFORMED("ZKLOCK_SERVERS=h\0:1\n", "line 1");
	MALFORMED("ZKLOCK_AUTH_FILE=\"\"\n", "line 1: ZKLOCK_AUTH_FILE has no value");
	MALFORMED("ZKLOCK_SERVERS=\"h:1\n", "line 1: a quote without its end");
	MALFORMED("ZKLOCK_SERVERS='h:1\"\n", "line 1: a quote without its end");
	MALFORMED("ZKLOCK_SERVERS='\n", "line 1: a quote without its end");
	MALFORMED("ZKLOCK_SERVERS='h:1' # ours\n", "line 1: a quote without its end");
	MALFORMED("#\n\xef\xbb\xbfZKLOCK_SERVERS=h:1\n", "line 2: unknown key");
	MALFORMED("\nZKLOCK_AUTH_FILE=auth\n", "line 2: ZKLOCK_AUTH_FILE does not begin with \"/\"");
}

/* ---- credentials ---- */

/* What the text gives; "wrong", and `why` says what. */
static const char *credentials(const char *text, size_t length)
{
	static char found[128];
	char       *all;

	if (zkl__auth_parse(text, length, &all, why) < 0)
		return "wrong";
	snprintf(found, sizeof(found), "%s", all);
	free(all);
	return found;
}
#define GIVES(text, expected) CU_ASSERT_STRING_EQUAL(credentials((text), sizeof(text) - 1), (expected))
#define REFUSES(text, part)                                                                                            \
	do {                                                                                                           \
		GIVES(text, "wrong");                                                                                  \
		CU_ASSERT_PTR_NOT_NULL(strstr(why, (part)));                                                           \
		CU_ASSERT_PTR_NULL(strstr(why, "secret"));                                                             \
	} while (0)

static void credentials_are_lines(void)
{
	GIVES("digest:user:secret", "digest:user:secret");
	GIVES("digest:user:secret\r\n", "digest:user:secret");
	GIVES("\xef\xbb\xbf"
	      "digest:user:secret",
	      "digest:user:secret");
	GIVES("# ours\n\n\tdigest:user:with # and : in it \n  # end\n", "digest:user:with # and : in it");
	GIVES("digest:a:1\n\nensemble:blue\ndigest:b:2\n", "digest:a:1\nensemble:blue\ndigest:b:2");
}

static void malformed_credentials_are_refused_by_line_and_not_shown(void)
{
	REFUSES("", "no credential");
	REFUSES("# digest:user:secret\n", "no credential");
	REFUSES("secret", "line 1: not SCHEME:CREDENTIAL: give digest:user:password");
	REFUSES("digest:a:1\n\ndigest:secret\n",
	        "line 3: scheme digest needs a user and a password: give digest:user:password");
	REFUSES(":user:secret", "line 1");
	REFUSES("digest:", "line 1");
	REFUSES("ip:", "line 1");
	REFUSES("digest:", "line 1: scheme digest needs a user and a password");
	REFUSES("digest:user:sec\0ret", "line 1: it has a NUL");
	REFUSES("dig\0est:user:secret", "line 1: a scheme has a blank or a strange character");
	REFUSES("digest :user:secret", "line 1: a scheme has a blank");
	REFUSES("plugin:", "line 1: nothing behind the scheme");
	REFUSES("a-scheme-with-a-name-of-more-than-thirty-one:secret", "line 1");
}

static void schemes_that_no_line_can_show_are_refused(void)
{
	REFUSES("ip:10.1.2.3", "line 1: scheme ip is had without being shown, and gives no identity: give digest:");
	REFUSES("digest:a:1\nip:secret", "line 2: scheme ip");
	REFUSES("ip:", "line 1: scheme ip");
	REFUSES("world:anyone", "line 1: scheme world");
	REFUSES("auth:secret", "line 1: scheme auth");
	REFUSES("sasl:secret", "line 1: scheme sasl");
	REFUSES("x509:CN=secret", "line 1: scheme x509");
	GIVES("ipv:secret", "ipv:secret");
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = {
		TEST(configuration_names_servers_and_credentials),
		TEST(malformed_configuration_is_refused_by_line),
		TEST(credentials_are_lines),
		TEST(malformed_credentials_are_refused_by_line_and_not_shown),
		TEST(schemes_that_no_line_can_show_are_refused),
		{0},
	};

	return check_main("run_config", tests, argc, argv);
}
