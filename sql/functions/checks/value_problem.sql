-- The problem of a value that no program should have to read, in a few words; NULL if it has none. For
-- every attribute, without regard to its meaning. Agents evaluate submitted values for all users, so values
-- that they or HTCondor can't represent are refused here: numbers of hundreds of digits, deep nesting, and
-- strings in expressions whose escapes are not UTF-8. So are expressions that break off or do not close.
-- That is no parser: an agent finds other errors, and the job is Held.
CREATE OR REPLACE FUNCTION fetchwork.value_problem(value jsonb)
RETURNS text
LANGUAGE plpgsql
IMMUTABLE
AS $$
DECLARE
    -- one UTF-8 character of two bytes or more, in octal escapes
    character text := $re$\\3(0[2-7]|[1-3][0-7])\\2[0-7]{2}|\\340\\2[4-7][0-7]\\2[0-7]{2}$re$
        || $re$|\\3(4[1-7]|5[0-467])(\\2[0-7]{2}){2}|\\355\\2[0-3][0-7]\\2[0-7]{2}$re$
        || $re$|\\360\\2([2-7])[0-7](\\2[0-7]{2}){2}|\\36[1-3](\\2[0-7]{2}){3}$re$
        || $re$|\\364\\2[01][0-7](\\2[0-7]{2}){2}$re$;
    expression text;
    escapes text;
    brackets text;
    inner_brackets text;
BEGIN
    IF jsonb_typeof(value) IN ('array', 'object') THEN
        IF jsonb_path_exists(value, '$.**{101}') THEN
            RETURN 'is nested deeper than 100; allowed: 100 levels';
        END IF;
        IF EXISTS (
            SELECT FROM jsonb_path_query(value, '$.** ? (@.type() == "number")') AS n (number)
            WHERE octet_length(n.number::text) > 400
        ) THEN
            RETURN 'holds a number of more than 400 digits; allowed: one that HTCondor can represent';
        END IF;
        RETURN NULL;
    END IF;
    IF jsonb_typeof(value) = 'number' AND octet_length(value::text) > 400 THEN
        RETURN 'is a number of more than 400 digits; allowed: one that HTCondor can represent';
    END IF;
    -- a cast to double precision, as in constraints, would fail everyone's query; only a long number can be
    -- so small
    IF jsonb_typeof(value) = 'number' AND octet_length(value::text) > 300 THEN
        IF value::numeric <> 0 AND abs(value::numeric) < 5e-324 THEN
            RETURN 'is a number that is too small; allowed: 0, or one that HTCondor can represent';
        END IF;
    END IF;
    IF NOT fetchwork.is_expression(value) THEN
        RETURN NULL;
    END IF;

    expression := left(substr(value #>> '{}', 7), -2);
    IF strpos(expression, '\') > 0 THEN
        -- with escaped backslashes removed, a backslash begins an escape
        escapes := replace(expression, '\\', ' ');
        IF escapes ~ '\\0(?![1-7]|0[1-7])' THEN
            RETURN 'has a NUL in a string; allowed: text without';
        END IF;
        IF escapes ~ '\\[23][0-7]{2}'
            AND regexp_replace(escapes, character, '', 'g') ~ '\\[23][0-7]{2}'
        THEN
            RETURN 'has octal escapes in a string that are not UTF-8; allowed: UTF-8';
        END IF;
    END IF;
    expression := regexp_replace(expression, '"([^"\\]|\\.)*"', '""', 'g');
    -- the automata of these two are large, so only long expressions are matched with them
    IF length(expression) >= 400 AND expression ~ '[0-9A-Za-z_]{200}[0-9A-Za-z_]{200}' THEN
        RETURN 'has a number or name of more than 400 characters; allowed: shorter ones';
    END IF;
    IF length(expression) >= 100 AND expression ~ '([-+!~]\s*){100}' THEN
        RETURN 'has more than 100 operators in a row; allowed: fewer';
    END IF;
    -- an attribute's name may be quoted
    expression := regexp_replace(expression, '''([^''\\]|\\.)*''', 'x', 'g');
    brackets := regexp_replace(expression, '[^][(){}]', '', 'g');
    -- each round removes the innermost pairs
    FOR round IN 1 .. 101 LOOP
        inner_brackets := regexp_replace(brackets, '\(\)|\[\]|\{\}', '', 'g');
        EXIT WHEN inner_brackets = brackets;
        brackets := inner_brackets;
        IF round = 101 THEN
            RETURN 'is nested deeper than 100; allowed: 100 levels';
        END IF;
    END LOOP;
    -- a comment may have anything
    IF expression ~ '/[/*]' THEN
        RETURN NULL;
    ELSIF replace(expression, '""', '') ~ '["'']' THEN
        RETURN 'has a string that does not end; allowed: a ClassAd expression';
    ELSIF brackets <> '' THEN
        RETURN 'has a bracket without its other half; allowed: a ClassAd expression';
    ELSIF expression ~ '[-+*/%<>=!~&|^?:,.]\s*$' OR expression ~ '^\s*[*/%<>=&|^?:,]' THEN
        RETURN 'begins or ends with an operator; allowed: a ClassAd expression';
    END IF;
    RETURN NULL;
END
$$;
