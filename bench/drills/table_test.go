package drills

import "muniment.example/deploy/alerttest"

// drills in the order in which they are run. A factor of less than 60 leaves a count that a rule wants
// within its window the time to be reached; a higher one is for an hour.
var drills = []drill{
	{alerttest.Drill{How: "rows of ClickHouse are changed", Factor: 60, Alerts: []string{"MunimentMeteringDrift"}}, rowsChanged},
	// Before the other engines are cut off: a check for drift that fails late is tried again late.
	{alerttest.Drill{How: "the way to ClickHouse is cut", Factor: 60, Alerts: []string{"MunimentMeteringUnchecked"}}, clickhouseCut},
	{alerttest.Drill{How: "the way to ClickHouse is cut, and the topic keeps records for a minute", Factor: 60, Alerts: []string{"MunimentLoaderStuck", "MunimentRetentionHalfUsed", "MunimentLoaderBehind"}}, clickhouseAway},
	{alerttest.Drill{How: "a loader is killed", Factor: 60, Alerts: []string{"MunimentDown", "MunimentNoLoader"}}, loaderDead},
	{alerttest.Drill{How: "control's way to PostgreSQL is cut", Factor: 60, Alerts: []string{"MunimentDatabaseAway", "MunimentOffersExpireLate"}}, databaseAway},
	{alerttest.Drill{How: "the way to Kafka is cut", Factor: 60, Alerts: []string{"MunimentKafkaAway", "MunimentLoaderNoMember", "MunimentOutboxStuck", "MunimentWebhooksBehind"}}, kafkaAway},
	{alerttest.Drill{How: "`max.message.bytes` of the topic is lowered", Factor: 20, Alerts: []string{"MunimentSpoolInUse", "MunimentKafkaRefuses"}}, topicRefuses},
	{alerttest.Drill{How: "the gateways' requests don't reach control", Factor: 60, Alerts: []string{"MunimentControlFails"}}, noRequests},
	{alerttest.Drill{How: "a loader with `--from-all` starts while ClickHouse is away", Factor: 60, Alerts: []string{"MunimentLoaderBlind"}}, loaderBlind},
	{alerttest.Drill{How: "a loader starts with the name of an older topic", Factor: 60, Alerts: []string{"MunimentLoaderStopped"}}, olderTopic},
	{alerttest.Drill{How: "a node is cut off from control until its lease has ended", Factor: 60, Alerts: []string{"MunimentLeaseNearBound", "MunimentDeliveriesFailSlowly", "MunimentBeaconsLost", "MunimentNodeKeyChangeFails"}}, nodeCutOff},
	{alerttest.Drill{How: "a copy of a node's folder runs beside it", Factor: 10, Alerts: []string{"MunimentNodeCopied"}}, nodeCopied},
	{alerttest.Drill{How: "a node's certificate is renewed by one that soon ends, and its key by another's", Factor: 60, Alerts: []string{"MunimentCertificateEnds", "MunimentCertificateUnusable"}}, certificates},
	{alerttest.Drill{How: "a node's folder of copies can't be opened", Factor: 60, Alerts: []string{"MunimentCopiesFail"}}, copiesLost},
	{alerttest.Drill{How: "a tenant delivers far above its cap, beside another one", Factor: 60, Alerts: []string{"MunimentTenantsTakeTurns"}}, tenantAbove},
	{alerttest.Drill{How: "5,000 clients deliver to a node while Kafka stalls", Factor: 60, Alerts: []string{"MunimentDeliveriesFail"}, Besides: []string{"MunimentKafkaAway"}}, tooMany},
	{alerttest.Drill{How: "a receipt that no node has signed is written into the topic", Factor: 60, Alerts: []string{"MunimentForgedRecords", "MunimentHeldRecords", "MunimentUnsealed"}}, forged},
	{alerttest.Drill{How: "the folder of proof packs is gone", Factor: 60, Alerts: []string{"MunimentSealFails"}}, packsAway},
	{alerttest.Drill{How: "somebody's open transaction holds control's table of jobs", Factor: 600, Alerts: []string{"MunimentJobsWait"}}, jobsLocked},
	{alerttest.Drill{How: "the root, which is offline, delegates for an hour", Factor: 60, Alerts: []string{"MunimentDelegationEnds", "MunimentDelegationEndsSoon"}}, delegationShort},
	{alerttest.Drill{How: "a node is removed while what it signed can't be sealed", Factor: 60, Alerts: []string{"MunimentNodeKeyEnds"}, Besides: []string{"MunimentDown", "MunimentNoLoader"}}, nodeLeaves},
}
