-- The statement that makes the database `name`, quoted by the server itself; no row where there is one.
SELECT format('CREATE DATABASE %%I', %(name)s::text) AS statement
WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = %(name)s::text)
