CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE document_versions (
	kind TEXT NOT NULL, 
	id TEXT NOT NULL, 
	version BIGINT NOT NULL, 
	owner TEXT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	body BLOB NOT NULL, 
	CONSTRAINT pk_document_versions PRIMARY KEY (kind, id, version)
);

CREATE TABLE documents (
	kind TEXT NOT NULL, 
	id TEXT NOT NULL, 
	version BIGINT NOT NULL, 
	owner TEXT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	body BLOB NOT NULL, 
	CONSTRAINT pk_documents PRIMARY KEY (kind, id)
);

CREATE TABLE meta (
	name TEXT NOT NULL, 
	value BIGINT NOT NULL, 
	CONSTRAINT pk_meta PRIMARY KEY (name)
);

CREATE TABLE runs (
	id TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	session_id TEXT, 
	parent_run_id TEXT, 
	root_run_id TEXT NOT NULL, 
	link TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	lifecycle TEXT NOT NULL, 
	waiting BOOLEAN NOT NULL, 
	seq BIGINT NOT NULL, 
	epoch BIGINT NOT NULL, 
	"row" JSON NOT NULL, 
	CONSTRAINT pk_runs PRIMARY KEY (id)
);

CREATE TABLE segments (
	position INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	run_id TEXT NOT NULL, 
	first_seq BIGINT NOT NULL, 
	count INTEGER NOT NULL, 
	at BIGINT NOT NULL, 
	deleted BOOLEAN NOT NULL, 
	body BLOB NOT NULL, 
	CONSTRAINT uq_segments_run_id_first_seq UNIQUE (run_id, first_seq)
);

CREATE INDEX ix_runs_created ON runs (created_at, id);

CREATE INDEX ix_runs_lifecycle ON runs (lifecycle);

CREATE INDEX ix_runs_parent ON runs (parent_run_id, created_at, id) WHERE parent_run_id IS NOT NULL;

CREATE INDEX ix_runs_session ON runs (session_id, created_at, id) WHERE session_id IS NOT NULL;

CREATE INDEX ix_runs_waiting ON runs (created_at, id) WHERE waiting;

INSERT INTO alembic_version (version_num) VALUES ('0001');
