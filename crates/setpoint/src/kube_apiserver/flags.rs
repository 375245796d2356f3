//! All flags of kube-apiserver 1.37, by what becomes of them here.

use crate::flag_set::ValueType::{self, Bool, Duration, Float, Int, List, Text, Texts, Version};
use crate::flag_set::{Flag, Values};

/// Flags that `setpoint up` has under the same name.
pub(crate) const FORWARDED: &[Flag] = &[
    flag("advertise-address", Text),
    flag("allow-privileged", Bool),
    flag("anonymous-auth", Bool),
    flag("api-audiences", List),
    flag("audit-log-maxbackup", Int),
    flag("audit-log-maxsize", Int),
    flag("audit-log-path", Text),
    flag("audit-policy-file", Text),
    flag("authentication-config", Text),
    flag("authentication-token-webhook-cache-ttl", Duration),
    flag("authentication-token-webhook-config-file", Text),
    flag("authentication-token-webhook-version", Text),
    flag("authorization-config", Text),
    flag("authorization-mode", List),
    flag("authorization-webhook-cache-authorized-ttl", Duration),
    flag("authorization-webhook-cache-unauthorized-ttl", Duration),
    flag("authorization-webhook-config-file", Text),
    flag("authorization-webhook-version", Text),
    flag("bind-address", Text),
    flag("client-ca-file", Text),
    flag("disable-admission-plugins", List),
    flag("enable-admission-plugins", List),
    flag("enable-priority-and-fairness", Bool),
    flag("encryption-provider-config", Text),
    flag("encryption-provider-config-automatic-reload", Bool),
    flag("event-ttl", Duration),
    flag("kubelet-certificate-authority", Text),
    flag("kubelet-client-certificate", Text),
    flag("kubelet-client-key", Text),
    flag("kubelet-preferred-address-types", List),
    flag("max-mutating-requests-inflight", Int),
    flag("max-requests-inflight", Int),
    flag("oidc-ca-file", Text),
    flag("oidc-client-id", Text),
    flag("oidc-groups-claim", Text),
    flag("oidc-groups-prefix", Text),
    flag("oidc-issuer-url", Text),
    flag("oidc-required-claim", Texts),
    flag("oidc-signing-algs", List),
    flag("oidc-username-claim", Text),
    flag("oidc-username-prefix", Text),
    flag("proxy-client-cert-file", Text),
    flag("proxy-client-key-file", Text),
    flag("requestheader-allowed-names", List),
    flag("requestheader-client-ca-file", Text),
    flag("requestheader-extra-headers-prefix", List),
    flag("requestheader-group-headers", List),
    flag("requestheader-uid-headers", List),
    flag("requestheader-username-headers", List),
    flag("secure-port", Int),
    flag("service-account-extend-token-expiration", Bool),
    flag("service-account-issuer", Texts),
    flag("service-account-jwks-uri", Text),
    flag("service-account-key-file", Texts),
    flag("service-account-lookup", Bool),
    flag("service-account-max-token-expiration", Duration),
    flag("service-account-signing-key-file", Text),
    flag("service-node-port-range", Text),
    flag("tls-cert-file", Text),
    flag("tls-private-key-file", Text),
    flag("tls-sni-cert-key", Texts),
    flag("token-auth-file", Text),
];

/// Flags that this module handles itself.
pub(crate) const HANDLED: &[Flag] = &[
    flag("cert-dir", Text),
    flag("etcd-cafile", Text),
    flag("etcd-certfile", Text),
    flag("etcd-compaction-interval", Duration),
    flag("etcd-keyfile", Text),
    flag("etcd-prefix", Text),
    flag("etcd-servers", List),
    flag("etcd-servers-overrides", List),
    flag("feature-gates", List),
    flag("h", Bool),
    flag("help", Bool),
    flag("logging-format", Text),
    flag("runtime-config", List),
    flag("service-cluster-ip-range", List),
    flag("v", Int),
    flag("version", Version),
];

/// The flag that kube-apiserver does not have: which of kube-controller-manager's controllers run.
pub(crate) const ADDED: &[Flag] = &[flag("controllers", List)];

/// Flags without effect: they tune what this server does in another way, or what a test does not observe.
pub(crate) const IGNORED: &[Flag] = &[
    flag("aggregator-reject-forwarding-redirect", Bool),
    flag("allow-metric-labels", Text),
    flag("allow-metric-labels-manifest", Text),
    flag("apiserver-count", Int),
    flag("audit-log-batch-buffer-size", Int),
    flag("audit-log-batch-max-size", Int),
    flag("audit-log-batch-max-wait", Duration),
    flag("audit-log-batch-throttle-burst", Int),
    flag("audit-log-batch-throttle-enable", Bool),
    flag("audit-log-batch-throttle-qps", Float),
    flag("audit-log-compress", Bool),
    flag("audit-log-format", Text),
    flag("audit-log-maxage", Int),
    flag("audit-log-mode", Text),
    flag("audit-log-truncate-enabled", Bool),
    flag("audit-log-truncate-max-batch-size", Int),
    flag("audit-log-truncate-max-event-size", Int),
    flag("audit-log-version", Text),
    flag("audit-webhook-batch-buffer-size", Int),
    flag("audit-webhook-batch-initial-backoff", Duration),
    flag("audit-webhook-batch-max-size", Int),
    flag("audit-webhook-batch-max-wait", Duration),
    flag("audit-webhook-batch-throttle-burst", Int),
    flag("audit-webhook-batch-throttle-enable", Bool),
    flag("audit-webhook-batch-throttle-qps", Float),
    flag("audit-webhook-initial-backoff", Duration),
    flag("audit-webhook-mode", Text),
    flag("audit-webhook-truncate-enabled", Bool),
    flag("audit-webhook-truncate-max-batch-size", Int),
    flag("audit-webhook-truncate-max-event-size", Int),
    flag("audit-webhook-version", Text),
    flag("contention-profiling", Bool),
    flag("coordinated-leadership-lease-duration", Duration),
    flag("coordinated-leadership-renew-deadline", Duration),
    flag("coordinated-leadership-retry-period", Duration),
    flag("cors-allowed-origins", List),
    flag("debug-socket-path", Text),
    flag("default-not-ready-toleration-seconds", Int),
    flag("default-unreachable-toleration-seconds", Int),
    flag("default-watch-cache-size", Int),
    flag("delete-collection-workers", Int),
    flag("disable-http2-serving", Bool),
    flag("disabled-metrics", List),
    flag("emulation-forward-compatible", Bool),
    flag("enable-aggregator-routing", Bool),
    flag("enable-bootstrap-token-auth", Bool),
    flag("enable-garbage-collector", Bool),
    flag("enable-logs-handler", Bool),
    flag("endpoint-reconciler-type", Text),
    flag("etcd-count-metric-poll-period", Duration),
    flag("etcd-db-metric-poll-interval", Duration),
    flag("etcd-healthcheck-timeout", Duration),
    flag("etcd-readycheck-timeout", Duration),
    flag("external-hostname", Text),
    flag("goaway-chance", Float),
    flag("http2-max-streams-per-connection", Int),
    flag("kubelet-port", Int),
    flag("kubelet-read-only-port", Int),
    flag("kubelet-timeout", Duration),
    flag("kubernetes-service-node-port", Int),
    flag("lease-reuse-duration-seconds", Int),
    flag("livez-grace-period", Duration),
    flag("log-flush-frequency", Duration),
    flag("log-json-info-buffer-size", Text),
    flag("log-json-split-stream", Bool),
    flag("log-text-info-buffer-size", Text),
    flag("log-text-split-stream", Bool),
    flag("max-connection-bytes-per-sec", Int),
    flag("min-compatibility-version", List),
    flag("min-request-timeout", Int),
    flag("peer-advertise-ip", Text),
    flag("peer-advertise-port", Text),
    flag("peer-ca-file", Text),
    flag("permit-address-sharing", Bool),
    flag("permit-port-sharing", Bool),
    flag("profiling", Bool),
    flag("request-timeout", Duration),
    flag("runtime-config-emulation-forward-compatible", Bool),
    flag("show-hidden-metrics-for-version", Text),
    flag("shutdown-delay-duration", Duration),
    flag("shutdown-send-retry-after", Bool),
    flag("shutdown-watch-termination-grace-period", Duration),
    flag("storage-backend", Text),
    flag("storage-initialization-timeout", Duration),
    flag("storage-media-type", Text),
    flag("strict-transport-security-directives", List),
    flag("tls-cipher-suites", List),
    flag("tls-curve-preferences", List),
    flag("tls-min-version", Text),
    flag("tracing-config-file", Text),
    flag("vmodule", Text),
    flag("watch-cache", Bool),
    flag("watch-cache-sizes", List),
];

/// Flags that are rejected: a test that sets one expects an effect that this server does not have.
pub(crate) const UNSUPPORTED: &[Flag] = &[
    flag("admission-control", List),
    flag("admission-control-config-file", Text),
    flag("audit-webhook-config-file", Text),
    flag("authorization-policy-file", Text),
    flag("egress-selector-config-file", Text),
    flag("emulated-version", List),
    flag("service-account-signing-endpoint", Text),
];

/// All flags that the command line may have.
pub(crate) fn all() -> Vec<Flag> {
    [FORWARDED, HANDLED, ADDED, IGNORED, UNSUPPORTED].concat()
}

/// The first flag of a command line that is not supported.
pub(crate) fn find_unsupported(values: &Values) -> Option<&'static str> {
    let mut names = UNSUPPORTED.iter().map(|flag| flag.name);
    names.find(|name| values.text(name).is_some())
}

const fn flag(name: &'static str, value_type: ValueType) -> Flag {
    Flag::new(name, value_type)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_flag_is_in_one_list() {
        let all = all();
        let names: BTreeSet<&str> = all.iter().map(|flag| flag.name).collect();
        assert_eq!(names.len(), all.len());
    }

    #[test]
    fn every_forwarded_flag_is_a_flag_of_up() {
        use clap::CommandFactory;
        let command = crate::args::Args::command();
        let up = command.find_subcommand("up").unwrap();
        let has = |name: &str| {
            up.get_arguments()
                .any(|argument| argument.get_long() == Some(name))
        };
        let missing: Vec<&str> = FORWARDED
            .iter()
            .map(|flag| flag.name)
            .filter(|name| !has(name))
            .collect();
        assert_eq!(missing, [""; 0]);
    }
}
