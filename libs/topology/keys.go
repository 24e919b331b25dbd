package topology

import (
	"fmt"

	"github.com/seedqueue/sq/libs/partition"
)

// Root is the prefix of every key. Keys, writers and guards:
//
//	key                        value        writer        guard
//	/sq/cluster                Cluster      bootstrap     missing
//	/sq/namespaces/<ns>        Namespace    coordinator   missing; CreateRevision of /sq/coord
//	/sq/names/<ns>/<name>      TopicRef     coordinator   missing; CreateRevision of /sq/coord; namespace's ModRevision
//	/sq/topics/<uuid>          Topic        coordinator   ModRevision; CreateRevision of /sq/coord
//	/sq/p/<uuid>/<n>           Assignment   coordinator   ModRevision; CreateRevision of /sq/coord (nominate, and all changes of members)
//	                                        the leader    ModRevision, read as ELECTING with its epoch and incarnation (activate)
//	/sq/requests/<id>          Request      coordinator   missing; leased for an hour
//	/sq/brokers/<id>/ident     BrokerIdent  the broker    ModRevision
//	/sq/brokers/<id>/live      Live         the broker    ident's ModRevision; own ModRevision, or missing; leased
//	/sq/brokers/<id>/orders    BrokerOrders coordinator   ModRevision; CreateRevision of /sq/coord
//	/sq/gateways/<id>/live     Live         the gateway   own ModRevision, or missing; leased
//	/sq/tierers/<id>/live      Live         the tierer    own ModRevision, or missing; leased
//	/sq/coord                  Live         candidates    missing, or own old one; leased
//	/sq/pid                    PIDBlock     any broker    ModRevision
//	/sq/tier/<uuid>/<n>        TierFloor    tierers       ModRevision; grows only
//	/sq/recoveries/<uuid>/<n>/<epoch>  Recovery  coordinator  missing; with the assignment it describes; never deleted
const Root = "/sq/"

// Keys and prefixes without a parameter.
const (
	ClusterKey       = Root + "cluster"
	CoordinatorKey   = Root + "coord"
	PIDKey           = Root + "pid"
	NamespacesPrefix = Root + "namespaces/"
	NamesPrefix      = Root + "names/"
	TopicsPrefix     = Root + "topics/"
	PartitionsPrefix = Root + "p/"
	RequestsPrefix   = Root + "requests/"
	BrokersPrefix    = Root + "brokers/"
	GatewaysPrefix   = Root + "gateways/"
	TierersPrefix    = Root + "tierers/"
	TierPrefix       = Root + "tier/"
	RecoveriesPrefix = Root + "recoveries/"
)

// NamespaceKey of a namespace.
func NamespaceKey(namespace string) string { return NamespacesPrefix + namespace }

// NameKey of a topic's name.
func NameKey(name Name) string { return NamesPrefix + name.Namespace + "/" + name.Topic }

// TopicKey of a topic.
func TopicKey(topic partition.UUID) string { return TopicsPrefix + topic.String() }

// PartitionKey of a partition.
func PartitionKey(id partition.ID) string { return PartitionsPrefix + id.String() }

// RequestKey of an idempotent request.
func RequestKey(id string) string { return RequestsPrefix + id }

// BrokerIdentKey of a broker.
func BrokerIdentKey(id partition.NodeID) string { return fmt.Sprintf("%s%d/ident", BrokersPrefix, id) }

// BrokerLiveKey of a broker.
func BrokerLiveKey(id partition.NodeID) string { return fmt.Sprintf("%s%d/live", BrokersPrefix, id) }

// BrokerOrdersKey of a broker.
func BrokerOrdersKey(id partition.NodeID) string {
	return fmt.Sprintf("%s%d/orders", BrokersPrefix, id)
}

// RecoveryKey of a forced recovery, by the epoch that began with it.
func RecoveryKey(id partition.ID, epoch partition.Epoch) string {
	return fmt.Sprintf("%s%s/%d", RecoveriesPrefix, id, epoch)
}

// GatewayLiveKey of a gateway.
func GatewayLiveKey(id string) string { return GatewaysPrefix + id + "/live" }

// TiererLiveKey of a tierer.
func TiererLiveKey(id string) string { return TierersPrefix + id + "/live" }

// TierKey of a partition's bucket floors.
func TierKey(id partition.ID) string { return TierPrefix + id.String() }
