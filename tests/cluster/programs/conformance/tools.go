//go:build tools

// Package tools pins Kubernetes' own end-to-end tests, as an ordinary module requirement.
package tools

import _ "k8s.io/kubernetes/test/e2e"
