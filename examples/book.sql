-- SPDX-License-Identifier: Apache-2.0
-- Fencing by psql, with the tables of fenced.sql:
--     zklock-run /locks/account -- sh -c 'psql -X -v ON_ERROR_STOP=1 -v token="$ZKLOCK_TOKEN" -f book.sql'
-- A newer holder's mark leaves no row to update, at which \gset fails: psql ends (3), and nothing is done.
BEGIN;
UPDATE fence SET mark = :token
    WHERE path = '/locks/account' AND mark <= :token
    RETURNING mark \gset
UPDATE account SET balance = balance + 10 WHERE id = 1;
COMMIT;
