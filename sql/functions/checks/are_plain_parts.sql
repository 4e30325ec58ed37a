-- Whether each line is a job's own part as printed by jsonb, and sets only arguments, environment and
-- standard files, to plain text: letters that JSON writes as they are, no expression, and no value of the
-- slot ($$(...), whose length is not known yet). Each line ends in a line break, and contains none: jsonb
-- prints "\n" for it. Checks many lines at once: PostgreSQL builds the automaton of a regular expression anew
-- for each text, which takes ten times as long as scanning a line.
CREATE OR REPLACE FUNCTION fetchwork.are_plain_parts(lines text)
RETURNS boolean
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
BEGIN ATOMIC
    SELECT lines ~ (
            '^({("(Args|Arguments|Env|Environment|In|Out|Err)": '
            '"([^"\\[:cntrl:]]|\\["\\])*"(, )?)+}\n)*$'
        )
        AND strpos(lines, '"/Expr(') = 0
        AND strpos(lines, '$$(') = 0;
END;
