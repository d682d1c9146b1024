BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE alerts (
	regression VARCHAR(16) NOT NULL, 
	created VARCHAR(40) NOT NULL, 
	delivered VARCHAR(40), 
	tries INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (regression)
);
CREATE TABLE audit (
	id VARCHAR(16) NOT NULL, 
	created VARCHAR(40) NOT NULL, 
	token TEXT NOT NULL, 
	action TEXT NOT NULL, 
	subject TEXT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE baseline_records (
	baseline TEXT NOT NULL, 
	record VARCHAR(64) NOT NULL, 
	PRIMARY KEY (baseline, record)
);
CREATE TABLE baselines (
	name TEXT NOT NULL, 
	created VARCHAR(40) NOT NULL, 
	PRIMARY KEY (name)
);
CREATE TABLE documents (
	record VARCHAR(64) NOT NULL, 
	document TEXT NOT NULL, 
	thinned BOOLEAN DEFAULT 0 NOT NULL, 
	PRIMARY KEY (record)
);
CREATE TABLE explanations (
	record VARCHAR(64) NOT NULL, 
	created VARCHAR(40) NOT NULL, 
	document TEXT NOT NULL, 
	trace BLOB, 
	PRIMARY KEY (record)
);
CREATE TABLE foreign_points (
	id VARCHAR(32) NOT NULL, 
	source VARCHAR(40) NOT NULL, 
	name TEXT NOT NULL, 
	created VARCHAR(40) NOT NULL, 
	document TEXT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE machines (
	id VARCHAR(12) NOT NULL, 
	label TEXT NOT NULL, 
	facts JSON NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE notes (
	id VARCHAR(16) NOT NULL, 
	regression VARCHAR(16) NOT NULL, 
	created VARCHAR(40) NOT NULL, 
	author TEXT NOT NULL, 
	text TEXT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE records (
	id VARCHAR(64) NOT NULL, 
	run VARCHAR(64) NOT NULL, 
	created VARCHAR(40) NOT NULL, 
	"key" TEXT NOT NULL, 
	family TEXT NOT NULL, 
	workload TEXT, 
	rung TEXT, 
	mode TEXT, 
	device TEXT, 
	precision TEXT, 
	batch BIGINT, 
	feed TEXT, 
	layout TEXT, 
	optimizer TEXT, 
	threads BIGINT, 
	inputs TEXT, 
	source TEXT, 
	status TEXT NOT NULL, 
	parity TEXT NOT NULL, 
	environment VARCHAR(32) NOT NULL, 
	series VARCHAR(16), 
	project TEXT DEFAULT '' NOT NULL, 
	"commit" TEXT DEFAULT '' NOT NULL, 
	branch TEXT DEFAULT '' NOT NULL, 
	torch TEXT DEFAULT '' NOT NULL, 
	rounds INTEGER DEFAULT '0' NOT NULL, 
	gross FLOAT, 
	gross_low FLOAT, 
	gross_high FLOAT, 
	net FLOAT, 
	latency FLOAT, 
	prepare FLOAT, 
	host_bytes FLOAT, 
	device_bytes FLOAT, 
	PRIMARY KEY (id), 
	UNIQUE (run, "key")
);
CREATE TABLE regressions (
	id VARCHAR(16) NOT NULL, 
	series VARCHAR(16) NOT NULL, 
	metric TEXT NOT NULL, 
	source TEXT NOT NULL, 
	found VARCHAR(40) NOT NULL, 
	before_record VARCHAR(64) NOT NULL, 
	after_record VARCHAR(64) NOT NULL, 
	before_date VARCHAR(40) NOT NULL, 
	after_date VARCHAR(40) NOT NULL, 
	before_label TEXT NOT NULL, 
	after_label TEXT NOT NULL, 
	"before" FLOAT NOT NULL, 
	"after" FLOAT NOT NULL, 
	ratio FLOAT, 
	low FLOAT, 
	high FLOAT, 
	state TEXT NOT NULL, 
	owner TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE rounds (
	run VARCHAR(64) NOT NULL, 
	"key" TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	document TEXT NOT NULL, 
	UNIQUE (run, "key", position)
);
CREATE TABLE runs (
	id VARCHAR(64) NOT NULL, 
	created VARCHAR(40) NOT NULL, 
	name TEXT NOT NULL, 
	fingerprint VARCHAR(32) NOT NULL, 
	finished BOOLEAN NOT NULL, 
	skipped JSON NOT NULL, 
	baseline_side BOOLEAN NOT NULL, 
	confirmation BOOLEAN NOT NULL, 
	project TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE series (
	id VARCHAR(16) NOT NULL, 
	project TEXT NOT NULL, 
	family TEXT NOT NULL, 
	ladder TEXT NOT NULL, 
	workload TEXT, 
	rung TEXT, 
	mode TEXT, 
	device TEXT, 
	precision TEXT, 
	batch BIGINT, 
	feed TEXT, 
	layout TEXT, 
	optimizer TEXT, 
	threads BIGINT, 
	inputs TEXT, 
	machine VARCHAR(12) NOT NULL, 
	points INTEGER NOT NULL, 
	first VARCHAR(40) NOT NULL, 
	last VARCHAR(40) NOT NULL, 
	record VARCHAR(64) NOT NULL, 
	status TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	parity TEXT NOT NULL, 
	rounds INTEGER NOT NULL, 
	gross FLOAT, 
	gross_low FLOAT, 
	gross_high FLOAT, 
	net FLOAT, 
	latency FLOAT, 
	prepare FLOAT, 
	host_bytes FLOAT, 
	device_bytes FLOAT, 
	unjudged BOOLEAN NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE tags (
	record VARCHAR(64) NOT NULL, 
	name TEXT NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY (record, name)
);
CREATE TABLE tokens (
	id VARCHAR(16) NOT NULL, 
	name TEXT NOT NULL, 
	digest VARCHAR(64) NOT NULL, 
	project TEXT NOT NULL, 
	may_write BOOLEAN NOT NULL, 
	created VARCHAR(40) NOT NULL, 
	revoked VARCHAR(40), 
	used VARCHAR(40), 
	PRIMARY KEY (id), 
	UNIQUE (digest)
);
CREATE INDEX runs_by_created ON runs (created);
CREATE INDEX runs_by_fingerprint ON runs (fingerprint, created);
CREATE INDEX records_by_commit ON records ("commit");
CREATE INDEX records_by_key ON records ("key", created);
CREATE INDEX records_by_family ON records (family, created);
CREATE INDEX records_by_workload ON records (workload, created);
CREATE INDEX records_by_series ON records (series, created);
CREATE INDEX records_by_run ON records (run, status);
CREATE INDEX records_by_created ON records (created);
CREATE INDEX tags_by_value ON tags (name, value);
CREATE INDEX series_by_machine ON series (machine, family);
CREATE INDEX series_by_ladder ON series (ladder);
CREATE INDEX series_by_last ON series (last);
CREATE INDEX series_by_unjudged ON series (unjudged);
CREATE INDEX series_by_workload ON series (workload, mode, rung);
CREATE INDEX foreign_points_by_name ON foreign_points (name, created);
CREATE INDEX regressions_by_found ON regressions (found);
CREATE INDEX regressions_by_series ON regressions (series, metric);
CREATE INDEX notes_by_regression ON notes (regression, created);
CREATE INDEX audit_by_created ON audit (created);
COMMIT;
