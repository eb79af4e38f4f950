package systemtest

import (
	"regexp"
)

// OfOurs are ids by the names that paths have for them.
var OfOurs = map[string]*regexp.Regexp{
	"keyId": regexp.MustCompile(`key_\w{26}`), "basisId": regexp.MustCompile(`bas_\w{26}`), "rightId": regexp.MustCompile(`rgh_\w{26}`),
	"challengeId": regexp.MustCompile(`chg_\w{26}`), "disputeId": regexp.MustCompile(`dsp_\w{26}`), "offerId": regexp.MustCompile(`ofr_\w{26}`), "packId": regexp.MustCompile(`ppk_\w{26}`), "mappingId": regexp.MustCompile(`map_\w{26}`), "receiptId": regexp.MustCompile(`rcp_\w{26}`),
	"jobId": regexp.MustCompile(`dsar:\w{26}`), "webhookId": regexp.MustCompile(`whk_\w{26}`), "counterpartyId": regexp.MustCompile(`\bcp_\w{26}`), "statementId": regexp.MustCompile(`stm_\w{26}`), "ruleId": regexp.MustCompile(`rule_\w{26}`), "payableId": regexp.MustCompile(`\bpay_\w{26}`), "payeeLinkId": regexp.MustCompile(`pln_\w{26}`), "erasureId": regexp.MustCompile(`era_\w{26}`), "deliveryId": regexp.MustCompile(`dlv_\w{26}`), "memberId": regexp.MustCompile(`mbr_\w{26}`),
}
