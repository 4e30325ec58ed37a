-- The different words of a list separated by commas or blanks, sorted, so that equivalent lists are equal.
CREATE OR REPLACE FUNCTION fetchwork.words_of(list text)
RETURNS text[]
LANGUAGE sql
IMMUTABLE
BEGIN ATOMIC
    SELECT coalesce(array_agg(DISTINCT w.word ORDER BY w.word), '{}')
    FROM regexp_split_to_table(words_of.list, '[\s,]+') AS w (word)
    WHERE w.word <> '';
END;
