// Package retention deletes from the bucket: segments that the log has dropped, and manifests that newer ones have replaced.
//
//  1. A segment is deleted only if its partition's leader names its key as collectable (a committed TierDrop whose time has come), the key is
//     one of that partition's, and the leader's table, read after that, does not name it. Any doubt deletes nothing.
//  2. The leader is told when the objects are gone; told twice, or never, it names them again or not: deleting is idempotent.
//  3. A manifest is deleted only if this process wrote it, has written each of its tables anew under a higher sequence since (its tables never
//     go back), and has raised the floor in etcd of each of its partitions above the sequence before.
//
// Called by the tierer's worker (Collect) and lifecycle (Pruner.Run). Safe for concurrent use. Orphans and deleted topics are not its business yet.
package retention
