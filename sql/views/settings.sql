-- Numbers that hold for the whole pool.
CREATE OR REPLACE VIEW fetchwork.settings AS
SELECT s.name, s.value, s.unit, s.meaning
FROM fetchwork.setting AS s;
