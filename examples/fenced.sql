-- SPDX-License-Identifier: Apache-2.0
-- What fenced_sqlite and fenced_postgres work on. Tokens fit a signed 64-bit integer: BIGINT, and INTEGER of SQLite.

-- One row a lock path, with the greatest token that was admitted. For work on many rows.
CREATE TABLE fence (path VARCHAR(190) PRIMARY KEY, mark BIGINT NOT NULL);
INSERT INTO fence VALUES ('/locks/account', 0);

-- Or each row with the token of whoever wrote it last. For work on one row.
CREATE TABLE account (id INTEGER PRIMARY KEY, balance BIGINT NOT NULL, token BIGINT NOT NULL);
INSERT INTO account VALUES (1, 0, 0);
