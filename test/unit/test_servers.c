/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <netdb.h>
#include <sys/socket.h>

#include "servers.h"

/* "host port, host port/chroot" as it was understood, or the error's message. */
static const char *parse(const char *text)
{
	static char         shown[600];
	struct zkl__servers servers = {0};
	zkl_error           error = {0};
	int                 r = zkl__servers_parse(&servers, text, &error);
	size_t              used = 0;

	CHECK_INT(error.code, r);
	CHECK(!strchr(error.message, '\n'));
	shown[0] = 0;
	if (r < 0) {
		CHECK(!servers.list && !servers.chroot);
		snprintf(shown, sizeof shown, "%s: %s", zkl_error_name(r), error.message);
		return shown;
	}
	for (unsigned i = 0; i < servers.count; i++)
		used += (size_t)snprintf(shown + used, sizeof shown - used, "%s%s %s", i ? ", " : "",
		                         servers.list[i].host, servers.list[i].port);
	snprintf(shown + used, sizeof shown - used, "%s", servers.chroot);
	zkl__servers_clear(&servers);
	return shown;
}

static void hosts_ports_and_chroot_are_taken_apart(void)
{
	static const struct {
		const char *text, *shown;
	} cases[] = {
		{"zk1", "zk1 2181"},
		{"zk1:2182", "zk1 2182"},
		{"zk1:2181,zk2:2181,zk3:2181", "zk1 2181, zk2 2181, zk3 2181"},
		{"zk1,zk2:2182", "zk1 2181, zk2 2182"},
		{"zk1:2181/app", "zk1 2181/app"},
		{"zk1,zk2/app/locks", "zk1 2181, zk2 2181/app/locks"},
		{"zk1:2181/", "zk1 2181"},
		{"10.0.0.1:1", "10.0.0.1 1"},
		{"10.0.0.1:65535", "10.0.0.1 65535"},
		{"zk1:02181", "zk1 02181"},
		{"[::1]:2181", "::1 2181"},
		{"[::1]", "::1 2181"},
		{"[2001:db8::1]:2182,[::1],zk3", "2001:db8::1 2182, ::1 2181, zk3 2181"},
		{"[::1]/app", "::1 2181/app"},
		{"[fe80::1%eth0]:2181", "fe80::1%eth0 2181"},
		{"a,b,c,d,e,f,g", "a 2181, b 2181, c 2181, d 2181, e 2181, f 2181, g 2181"},
	};

	for (size_t i = 0; i < COUNT(cases); i++)
		CHECK_STR(parse(cases[i].text), cases[i].shown);
}

static void bad_list_is_refused_with_the_rule_that_it_breaks(void)
{
	static const struct {
		const char *text, *rule;
	} cases[] = {
		{NULL, "no servers are named"},
		{"", "no servers are named"},
		{"/app", "a host is missing"},
		{":2181", "a host is missing"},
		{"zk1,", "a host is missing"},
		{",zk1", "a host is missing"},
		{"zk1,,zk2", "a host is missing"},
		{"zk1,/app", "a host is missing"},
		{"[]:2181", "a host is missing"},
		{"zk1:", "a port must be a number from 1 to 65535"},
		{"zk1:0", "a port must be a number from 1 to 65535"},
		{"zk1:65536", "a port must be a number from 1 to 65535"},
		{"zk1:123456", "a port must be a number from 1 to 65535"},
		{"zk1:99999999999999999999", "a port must be a number from 1 to 65535"},
		{"zk1:-1", "a port must be a number from 1 to 65535"},
		{"zk1:+1", "a port must be a number from 1 to 65535"},
		{"zk1: 1", "a host has a blank"},
		{"zk1:2181 zk2:2181", "commas alone separate hosts"},
		{"zk1:21a1", "a port must be a number from 1 to 65535"},
		{"[::1]:", "a port must be a number from 1 to 65535"},
		{"zk1:2181, zk2:2181", "a host has a blank"},
		{"zk1:2181;zk2:2181", "commas alone separate hosts"},
		{"zk1;zk2", "commas alone separate hosts"},
		{"http://zk1:2181", "a host has no \"http://\" or the like before it"},
		{"zk://zk1:2181,zk2:2181/app", "a host has no \"http://\" or the like before it"},
		{"zk1:2181,http://zk2:2181", "a host has no \"http://\" or the like before it"},
		{"zk1:/app", "a port must be a number from 1 to 65535"},
		{"zk1 :2181", "a host has a blank"},
		{" zk1", "a host has a blank"},
		{"zk1\n", "a host has a blank"},
		{"zk\xc3\xa4", "a host has a blank or a strange character"},
		{"[::1", "a [ without its ]"},
		{"[::1,zk2", "a [ without its ]"},
		{"[::1/app]", "a [ without its ]"},
		{"[::1]2181", "only a port may follow the ]"},
		{"[::1]]", "only a port may follow the ]"},
		{"[[]", "brackets belong around a whole IPv6 address"},
		{"zk[1]:2181", "brackets belong around a whole IPv6 address"},
		{"zk1]", "brackets belong around a whole IPv6 address"},
		{"fe80::1", "an IPv6 address needs brackets"},
		{"2001:db8::1:2181", "an IPv6 address needs brackets"},
		{"zk1:2181:2182", "an IPv6 address needs brackets"},
		{"::1", "an IPv6 address needs brackets"},
		{"::1:2181", "an IPv6 address needs brackets"},
		{"zk1:2181/app,zk2:2181/app", "a chroot comes once, behind the last host"},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		const char *message = parse(cases[i].text);

		if (!CHECK(strncmp(message, "ZKL_EINVAL: ", 12) == 0 && strstr(message, cases[i].rule)))
			printf("    %s: \"%s\"\n", cases[i].text, message);
	}
	CHECK_STR(parse("zk1:0"), "ZKL_EINVAL: servers \"zk1:0\": a port must be a number from 1 to 65535, like "
	                          "host1:2181,host2:2181/chroot");
	CHECK_INT(zkl__servers_parse(&(struct zkl__servers){0}, "zk1:0", NULL), ZKL_EINVAL);
}

static void chroot_obeys_the_rules_of_paths(void)
{
	static const struct {
		const char *text, *rule;
	} cases[] = {
		{"zk1/app/", "must not end with a slash"},
		{"zk1//app", "has an empty part (//)"},
		{"zk1/a/../b", "must not have a part"},
		{"zk1/a\x01", "not printable"},
		{"zk1/\xf0\x9f\x94\x92", "has a character of four bytes of UTF-8"},
		{"zk1/app,zk2", ""}, /* a comma is possible in a path */
	};

	for (size_t i = 0; i + 1 < COUNT(cases); i++) {
		const char *message = parse(cases[i].text);

		if (!CHECK(strncmp(message, "ZKL_EPATH: chroot ", 18) == 0 && strstr(message, cases[i].rule)))
			printf("    %s: \"%s\"\n", cases[i].text, message);
	}
	CHECK_STR(parse("zk1/app,zk2"), "zk1 2181/app,zk2");
}

static void chroot_leaves_room_for_a_lock_path(void)
{
	char text[300] = "zk1/";

	memset(text + 4, 'x', 250);
	text[3 + ZKL_PATH_MAX - 2] = 0;
	CHECK(strncmp(parse(text), "zk1 2181/xxx", 12) == 0);
	text[3 + ZKL_PATH_MAX - 2] = 'x';
	text[3 + ZKL_PATH_MAX - 1] = 0;
	CHECK_STR(parse(text), "ZKL_EPATH: chroot is 189 bytes long, at most 188 are possible here");
}

/* ---- addresses ---------------------------------------------------------------------------------------------------------------- */

static bool numeric(const char *text)
{
	struct zkl__servers servers;
	bool                result;

	CHECK_INT(zkl__servers_parse(&servers, text, NULL), 0);
	result = zkl__servers_are_numeric(&servers);
	zkl__servers_clear(&servers);
	return result;
}

static void list_is_numeric_if_every_host_is(void)
{
	CHECK(numeric("127.0.0.1"));
	CHECK(numeric("127.0.0.1:2181,[::1]:2182"));
	CHECK(!numeric("127.0.0.1,localhost"));
	CHECK(!numeric("localhost,127.0.0.1"));
	CHECK(!numeric("127.0.0"));
	CHECK(!numeric("127.0.0.256"));
	CHECK(!numeric("127.0.0.1.2"));
}

static bool resolves(const char *text, const char *expected)
{
	struct zkl__servers servers;
	char               *list;
	bool                good;

	CHECK_INT(zkl__servers_parse(&servers, text, NULL), 0);
	list = zkl__servers_resolve(&servers, true);
	good = expected ? CHECK_STR(list, expected) : CHECK(!list);
	free(list);
	zkl__servers_clear(&servers);
	return good;
}

/* ZOOKEEPER-2466: of an even number of addresses the client never tries one half. */
static void client_gets_an_odd_number_of_addresses(void)
{
	resolves("127.0.0.1", "127.0.0.1:2181");
	resolves("127.0.0.1:1,127.0.0.2:2", "127.0.0.1:1,127.0.0.2:2,127.0.0.1:1");
	resolves("127.0.0.1:1,127.0.0.2:2,127.0.0.3:3", "127.0.0.1:1,127.0.0.2:2,127.0.0.3:3");
	resolves("127.0.0.1:1,127.0.0.1:1", "127.0.0.1:1,127.0.0.1:1,127.0.0.1:1");
	resolves("127.0.0.4:4,127.0.0.3:3,127.0.0.2:2,127.0.0.1:1/app",
	         "127.0.0.4:4,127.0.0.3:3,127.0.0.2:2,127.0.0.1:1,127.0.0.4:4");
}

/* The client splits at the last colon and does not know brackets. */
static void client_gets_ipv6_without_brackets(void)
{
	resolves("[::1]:2181", "::1:2181");
	resolves("[::1]:1,127.0.0.1:2", "::1:1,127.0.0.1:2,::1:1");
	resolves("127.0.0.1:2,[2001:db8::1]:1", "127.0.0.1:2,2001:db8::1:1,127.0.0.1:2");
	resolves("[2001:DB8:0:0::1]:1", "2001:db8::1:1");
}

/* ---- names: this program's own resolver -------------------------------------------------------------------------------- */

static const char *dns; /* "name=address,address;..." */
static bool        asked;

int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **ret);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **ret);

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **ret)
{
	struct addrinfo **last = ret;
	char              key[80], address[80];
	const char       *found;

	if (__real_getaddrinfo(
		    host, port,
		    &(struct addrinfo){.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV},
		    ret) == 0)
		return 0;
	if (hints->ai_flags & AI_NUMERICHOST)
		return EAI_NONAME;
	asked = true;
	snprintf(key, sizeof key, "%s=", host);
	found = dns ? strstr(dns, key) : NULL;
	if (!found)
		return EAI_AGAIN;
	for (found += strlen(key); *found && *found != ';'; found += *found == ',') {
		snprintf(address, sizeof address, "%.*s", (int)strcspn(found, ",;"), found);
		CHECK_INT(__real_getaddrinfo(address, port, hints, last), 0);
		last = &(*last)->ai_next;
		found += strlen(address);
	}
	return 0;
}

static void found_are(struct zkl__servers *servers, bool numeric_only, const char *expected)
{
	char *list = zkl__servers_resolve(servers, numeric_only);

	if (expected)
		CHECK_STR(list, expected);
	else
		CHECK(!list);
	free(list);
}

static void name_gives_all_its_addresses(void)
{
	struct zkl__servers servers;

	dns = "zk=127.0.0.3,::1,127.0.0.1";
	CHECK_INT(zkl__servers_parse(&servers, "zk:7", NULL), 0);
	found_are(&servers, false, "127.0.0.3:7,::1:7,127.0.0.1:7");
	zkl__servers_clear(&servers);
}

static void name_that_cannot_be_resolved_keeps_its_addresses(void)
{
	struct zkl__servers servers;

	CHECK_INT(zkl__servers_parse(&servers, "zk1:1,zk2:2,127.0.0.9:9", NULL), 0);
	dns = NULL;
	found_are(&servers, false, "127.0.0.9:9");
	dns = "zk1=127.0.0.1";
	found_are(&servers, false, "127.0.0.1:1,127.0.0.9:9,127.0.0.1:1");
	dns = "zk2=127.0.0.2";
	found_are(&servers, false, "127.0.0.1:1,127.0.0.2:2,127.0.0.9:9");
	dns = NULL;
	found_are(&servers, false, "127.0.0.1:1,127.0.0.2:2,127.0.0.9:9");
	dns = "zk1=127.0.0.5";
	found_are(&servers, false, "127.0.0.5:1,127.0.0.2:2,127.0.0.9:9");
	zkl__servers_clear(&servers);
}

static void literal_addresses_can_be_had_without_asking(void)
{
	struct zkl__servers servers;

	CHECK_INT(zkl__servers_parse(&servers, "zk1:1,127.0.0.9:9,[::1]:2", NULL), 0);
	dns = "zk1=127.0.0.1";
	asked = false;
	found_are(&servers, true, "127.0.0.9:9,::1:2,127.0.0.9:9");
	CHECK(!asked);
	zkl__servers_clear(&servers);
	CHECK_INT(zkl__servers_parse(&servers, "zk1", NULL), 0);
	found_are(&servers, true, NULL);
	CHECK(!asked);
	zkl__servers_clear(&servers);
}

static void other_order_is_nothing_new(void)
{
	CHECK(!zkl__servers_have_new("1.1.1.1:1", "1.1.1.1:1"));
	CHECK(!zkl__servers_have_new("2.2.2.2:1,1.1.1.1:1,2.2.2.2:1", "1.1.1.1:1,2.2.2.2:1,1.1.1.1:1"));
	CHECK(!zkl__servers_have_new("2.2.2.2:1", "1.1.1.1:1,2.2.2.2:1,1.1.1.1:1"));
	CHECK(zkl__servers_have_new("1.1.1.1:1,2.2.2.2:1,1.1.1.1:1", "2.2.2.2:1"));
	CHECK(zkl__servers_have_new("1.1.1.1:2", "1.1.1.1:1"));
	CHECK(zkl__servers_have_new("1.1.1.1:1", "1.1.1.1:11"));
	CHECK(zkl__servers_have_new("1.1.1.1:11", "1.1.1.1:1"));
	CHECK(zkl__servers_have_new("::1:1", "::11:1,1::1:1"));
}

/* Of thousands of addresses a handle of the client would take seconds to be made. */
static void more_servers_than_have_numbers_are_refused(void)
{
	static char         text[256 * 5], many[256 * 12];
	struct zkl__servers servers;
	char               *list;

	for (size_t i = 0; i < 255; i++)
		memcpy(text + 4 * i, "zk1,", 4);
	text[4 * 255 - 1] = 0;
	CHECK_INT(zkl__servers_parse(&servers, text, NULL), 0);
	CHECK_INT(servers.count, 255);
	zkl__servers_clear(&servers);
	text[4 * 255 - 1] = ',';
	memcpy(text + 4 * 255, "zk1", 4);
	CHECK(strstr(parse(text), "more than 255 hosts"));
	snprintf(many, sizeof many, "zk=");
	for (int i = 0; i < 255; i++)
		snprintf(many + strlen(many), sizeof many - strlen(many), "%s127.0.1.%d", i ? "," : "", i);
	dns = many;
	CHECK_INT(zkl__servers_parse(&servers, "127.0.0.9:9,zk:1", NULL), 0);
	list = zkl__servers_resolve(&servers, false);
	CHECK(strstr(list, ",127.0.1.253:1") && !strstr(list, ",127.0.1.254:1"));
	free(list);
	zkl__servers_clear(&servers);
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = {TEST(hosts_ports_and_chroot_are_taken_apart),
	                                          TEST(bad_list_is_refused_with_the_rule_that_it_breaks),
	                                          TEST(chroot_obeys_the_rules_of_paths),
	                                          TEST(chroot_leaves_room_for_a_lock_path),
	                                          TEST(list_is_numeric_if_every_host_is),
	                                          TEST(client_gets_an_odd_number_of_addresses),
	                                          TEST(client_gets_ipv6_without_brackets),
	                                          TEST(name_gives_all_its_addresses),
	                                          TEST(name_that_cannot_be_resolved_keeps_its_addresses),
	                                          TEST(literal_addresses_can_be_had_without_asking),
	                                          TEST(other_order_is_nothing_new),
	                                          TEST(more_servers_than_have_numbers_are_refused),
	                                          {0}};

	return check_main("servers", tests, argc, argv);
}
