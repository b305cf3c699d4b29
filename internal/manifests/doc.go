// Package manifests holds examples/kubernetes against Kubernetes's own types. It is a module of its own, so that those are
// no dependency of the product.
package manifests
