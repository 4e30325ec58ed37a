-- Whether the caller may put events into the stream (sequence_events), and this transaction can write.
CREATE OR REPLACE FUNCTION fetchwork.may_sequence_events()
RETURNS boolean
LANGUAGE sql
STABLE
RETURN NOT current_setting('transaction_read_only')::boolean
    AND has_function_privilege('fetchwork.sequence_events(text)', 'EXECUTE');
