/* SPDX-License-Identifier: Apache-2.0 */
/* Fencing in a database of SQLite:  fenced_sqlite DATABASE row|mark TOKEN AMOUNT
 *
 * Books AMOUNT on the one account (fenced.sql) and prints the balance; 79: a newer holder of the lock was here.
 *
 *     cc fenced_sqlite.c -o fenced_sqlite -lsqlite3
 *     sqlite3 bank.db <fenced.sql
 *     zklock-run /locks/account -- sh -c './fenced_sqlite bank.db mark $ZKLOCK_TOKEN 10'
 *
 * row:   the row itself refuses. One statement compares, raises and writes.
 * mark:  a transaction raises the mark first, and then does what it likes. IMMEDIATE: from here to the end no other writes,
 *        so that nobody newer is admitted in between. Compared in a transaction of its own, which a SELECT without BEGIN is,
 *        the token may be old by the time of the write.
 *
 * Both refuse what is lower, not what is equal: the second booking of a holder has the token of its first. */
#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sqlite3 *database;

/* With ?1 and ?2. Rows changed, -1: failed. Where there is a result its first number is *ret. */
static int run(const char *sql, int64_t first, int64_t second, int64_t *ret)
{
	sqlite3_stmt *statement = NULL;
	const int     before = sqlite3_total_changes(database);
	int           r;

	if (sqlite3_prepare_v2(database, sql, -1, &statement, NULL) != SQLITE_OK)
		return -1;
	if (sqlite3_bind_parameter_count(statement) > 0)
		sqlite3_bind_int64(statement, 1, first);
	if (sqlite3_bind_parameter_count(statement) > 1)
		sqlite3_bind_int64(statement, 2, second);
	while ((r = sqlite3_step(statement)) == SQLITE_ROW)
		if (ret)
			*ret = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	return r == SQLITE_DONE ? sqlite3_total_changes(database) - before : -1;
}

static int book_by_row(int64_t token, int64_t amount, int64_t *ret)
{
	return run(
		"UPDATE account SET balance = balance + ?2, token = ?1 WHERE id = 1 AND token <= ?1 RETURNING balance",
		token, amount, ret);
}

static int book_by_mark(int64_t token, int64_t amount, int64_t *ret)
{
	if (run("BEGIN IMMEDIATE", 0, 0, NULL) < 0)
		return -1;
	int rows = run("UPDATE fence SET mark = ?1 WHERE path = '/locks/account' AND mark <= ?1", token, 0, NULL);
	if (rows > 0)
		rows = run("UPDATE account SET balance = balance + ?1 WHERE id = 1 RETURNING balance", amount, 0, ret);
	if (rows > 0)
		return run("COMMIT", 0, 0, NULL) < 0 ? -1 : rows;
	run("ROLLBACK", 0, 0, NULL);
	return rows;
}

/* Of a greater one, which fits no column, strtoll makes the greatest: a mark that refuses all others. */
static int is_token(const char *text)
{
	errno = 0;
	return strtoll(text, NULL, 10) > 0 && errno == 0 && text[strspn(text, "0123456789")] == '\0';
}

int main(int argc, char **argv)
{
	int64_t balance = 0;
	int     rows;

	if (argc != 5 || (strcmp(argv[2], "row") != 0 && strcmp(argv[2], "mark") != 0) || !is_token(argv[3])) {
		fprintf(stderr, "usage: fenced_sqlite DATABASE row|mark TOKEN AMOUNT\n");
		return 64;
	}
	const int64_t token = strtoll(argv[3], NULL, 10), amount = strtoll(argv[4], NULL, 10);
	rows = sqlite3_open_v2(argv[1], &database, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK ? 0 : -1;
	sqlite3_busy_timeout(database, 10000);
	/* On the disk before COMMIT returns: else the mark may go back when the power does. */
	if (rows == 0)
		rows = run("PRAGMA synchronous = FULL", 0, 0, NULL);
	if (rows == 0)
		rows = (*argv[2] == 'r' ? book_by_row : book_by_mark)(token, amount, &balance);
	if (rows > 0)
		printf("%" PRId64 "\n", balance);
	else
		fprintf(stderr, "fenced_sqlite: %s\n",
		        rows == 0 ? "a newer holder was here" : sqlite3_errmsg(database));
	sqlite3_close(database);
	return rows > 0 ? 0 : rows == 0 ? 79 : 1;
}
