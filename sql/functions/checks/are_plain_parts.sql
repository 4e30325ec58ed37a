-- Whether each line is what a job has of its own, as jsonb prints it, and sets only arguments, environment
-- and standard files, to plain text: letters that JSON writes as they are, no expression, and no value of the
-- slot ($$(...), whose length nobody knows yet). Each line ends in a line break, and none holds one: jsonb
-- prints "\n" for it.
--
-- Many lines at once: PostgreSQL builds the automaton of a regular expression anew for each text that it is
-- given, which takes ten times as long as to look through a line.
CREATE OR REPLACE FUNCTION fetchwork.are_plain_parts(lines text)
RETURNS boolean
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT lines ~ (
            '^({("(Args|Arguments|Env|Environment|In|Out|Err)": '
            '"([^"\\[:cntrl:]]|\\["\\])*"(, )?)+}\n)*$'
        )
        AND strpos(lines, '"/Expr(') = 0
        AND strpos(lines, '$$(') = 0;
END;
