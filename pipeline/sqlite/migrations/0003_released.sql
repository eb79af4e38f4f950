-- +goose Up

-- Records set aside that no event has released.
CREATE VIEW held AS
	SELECT * FROM set_aside AS s WHERE NOT EXISTS (
		SELECT 1 FROM events AS r INDEXED BY events_by_subject
		WHERE r.tenant_id IN (s.tenant_id, 'tnt_system') AND r.type = 'record.released' AND r.subject_kind = 'record'
			AND r.subject_id = s.generation || '.' || s.log_partition || '.' || s.position);

-- Events that were rows until their record was set aside and released. They are never
-- rows again.
CREATE TABLE withdrawn (
	tenant_id TEXT NOT NULL,
	event_id  TEXT NOT NULL,
	PRIMARY KEY (tenant_id, event_id)
);
