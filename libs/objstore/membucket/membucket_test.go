package membucket_test

import (
	"testing"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/objstore"
	"github.com/seedqueue/sq/libs/objstore/buckettest"
	"github.com/seedqueue/sq/libs/objstore/membucket"
)

func TestConformance(t *testing.T) {
	buckettest.Run(t, func(*testing.T) (objstore.Bucket, string) { return membucket.New(clock.Real()), "" }, 0)
}
