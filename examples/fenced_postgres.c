/* SPDX-License-Identifier: Apache-2.0 */
/* Fencing in PostgreSQL:  fenced_postgres CONNINFO row|mark TOKEN AMOUNT
 *
 * Books AMOUNT on the one account (fenced.sql) and prints the balance; 79: a newer holder of the lock was here.
 *
 *     cc fenced_postgres.c -o fenced_postgres $(pkg-config --cflags --libs libpq)
 *     psql -d bank -f fenced.sql
 *     zklock-run /locks/account -- sh -c './fenced_postgres dbname=bank mark $ZKLOCK_TOKEN 10'
 *
 * row:   the row itself refuses. One statement compares, raises and writes; one that waits for another's looks at the row
 *        again before it writes.
 * mark:  a transaction raises the mark first, and then does what it likes. The lock of the mark's row is kept to the end, so
 *        that nobody newer is admitted in between. Compared by a plain SELECT, in the same transaction or before, the token
 *        may be old by the time of the write.
 *
 * Both refuse what is lower, not what is equal: the second booking of a holder has the token of its first. With
 * synchronous_commit off or fsync off a crash of the server may put the mark back. */
#include <errno.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static PGconn *connection;
static char    balance[32];

/* With $1 and $2. Rows changed, -1: failed. Where there is a result its first value is kept. */
static int run(const char *sql, int count, const char *first, const char *second)
{
	const char *values[] = {first, second};
	PGresult   *result = PQexecParams(connection, sql, count, NULL, values, NULL, NULL, 0);
	int         rows = -1;

	if (PQresultStatus(result) == PGRES_TUPLES_OK || PQresultStatus(result) == PGRES_COMMAND_OK)
		rows = (int)strtol(PQcmdTuples(result), NULL, 10);
	if (PQntuples(result) > 0)
		snprintf(balance, sizeof balance, "%s", PQgetvalue(result, 0, 0));
	PQclear(result);
	return rows;
}

static int book_by_row(const char *token, const char *amount)
{
	return run(
		"UPDATE account SET balance = balance + $2::bigint, token = $1::bigint WHERE id = 1 AND token <= $1::bigint "
		"RETURNING balance",
		2, token, amount);
}

static int book_by_mark(const char *token, const char *amount)
{
	if (run("BEGIN", 0, NULL, NULL) < 0)
		return -1;
	int rows = run("UPDATE fence SET mark = $1::bigint WHERE path = '/locks/account' AND mark <= $1::bigint", 1,
	               token, NULL);
	if (rows > 0)
		rows = run("UPDATE account SET balance = balance + $1::bigint WHERE id = 1 RETURNING balance", 1,
		           amount, NULL);
	if (rows > 0)
		return run("COMMIT", 0, NULL, NULL) < 0 ? -1 : rows;
	run("ROLLBACK", 0, NULL, NULL);
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
	int rows = -1;

	if (argc != 5 || (strcmp(argv[2], "row") != 0 && strcmp(argv[2], "mark") != 0) || !is_token(argv[3])) {
		fprintf(stderr, "usage: fenced_postgres CONNINFO row|mark TOKEN AMOUNT\n");
		return 64;
	}
	connection = PQconnectdb(argv[1]);
	if (PQstatus(connection) == CONNECTION_OK)
		rows = (*argv[2] == 'r' ? book_by_row : book_by_mark)(argv[3], argv[4]);
	if (rows > 0)
		puts(balance);
	else
		fprintf(stderr, "fenced_postgres: %s\n",
		        rows == 0 ? "a newer holder was here" : PQerrorMessage(connection));
	PQfinish(connection);
	return rows > 0 ? 0 : rows == 0 ? 79 : 1;
}
