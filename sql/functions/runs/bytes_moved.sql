-- BytesSent and BytesRecvd of a job's ad, over all of its runs: facts has the sums of earlier runs, transfer
-- the bytes of this one (note_transfer). Empty if this run moved no files. Not IMMUTABLE, as
-- jsonb_build_object is not: it would not be inlined.
CREATE OR REPLACE FUNCTION fetchwork.bytes_moved(facts jsonb, transfer jsonb)
RETURNS jsonb
LANGUAGE sql
STABLE
PARALLEL SAFE
RETURN CASE
    WHEN transfer ?| ARRAY['TransferInputBytes', 'TransferOutputBytes'] THEN jsonb_build_object(
        -- real numbers, as a shadow writes them
        'BytesSent', (
            coalesce(fetchwork.number_of(facts -> 'BytesSent'), 0)
            + coalesce(fetchwork.number_of(transfer -> 'TransferOutputBytes'), 0)
        )::numeric(20, 1),
        'BytesRecvd', (
            coalesce(fetchwork.number_of(facts -> 'BytesRecvd'), 0)
            + coalesce(fetchwork.number_of(transfer -> 'TransferInputBytes'), 0)
        )::numeric(20, 1)
    )
    ELSE '{}'
END;
