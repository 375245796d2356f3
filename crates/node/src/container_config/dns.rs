//! `resolv.conf` of a pod.

use k8s_openapi::api::core::v1;
use setpoint_container_runtime::sandbox::DnsConfig;

use super::{NodeFacts, spec};

/// The limits of the resolvers in C libraries, as Kubernetes has them.
const MAX_SERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;
const MAX_SEARCH_CHARS: usize = 2048;
const MAX_DOMAIN_CHARS: usize = 253;

/// The DNS settings of a pod, by its policy and its own additions.
pub(super) fn dns_config(pod: &v1::Pod, node: &NodeFacts) -> DnsConfig {
    let spec = spec(pod);
    let host_network = spec.host_network.unwrap_or_default();
    let mut dns = match spec.dns_policy.as_deref() {
        Some("None") => DnsConfig::default(),
        Some("Default") => node.host_dns.clone(),
        Some("ClusterFirstWithHostNet") => cluster_dns(pod, node),
        _ if host_network => node.host_dns.clone(),
        _ => cluster_dns(pod, node),
    };
    if let Some(own) = &spec.dns_config {
        add(&mut dns, own);
    }
    limit(dns)
}

/// The cluster's DNS service; the node's own servers while there is none.
fn cluster_dns(pod: &v1::Pod, node: &NodeFacts) -> DnsConfig {
    if node.cluster_dns.is_empty() {
        return node.host_dns.clone();
    }
    let mut searches = Vec::new();
    let domain = &node.cluster_domain;
    if !domain.is_empty() {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        searches = vec![
            format!("{namespace}.svc.{domain}"),
            format!("svc.{domain}"),
            domain.clone(),
        ];
    }
    searches.extend(node.host_dns.searches.clone());
    DnsConfig {
        servers: node.cluster_dns.iter().map(ToString::to_string).collect(),
        searches: without_duplicates(searches),
        options: vec!["ndots:5".to_owned()],
    }
}

/// Adds the pod's own settings. Its options replace those of the same name.
fn add(dns: &mut DnsConfig, own: &v1::PodDNSConfig) {
    let join = |list: &mut Vec<String>, more: &Option<Vec<String>>| {
        list.extend(more.iter().flatten().cloned());
        *list = without_duplicates(std::mem::take(list));
    };
    join(&mut dns.servers, &own.nameservers);
    join(&mut dns.searches, &own.searches);
    for option in own.options.iter().flatten() {
        let name = option.name.as_deref().unwrap_or_default();
        let text = match option.value.as_deref() {
            Some(value) if !value.is_empty() => format!("{name}:{value}"),
            _ => name.to_owned(),
        };
        dns.options.retain(|old| option_name(old) != name);
        dns.options.push(text);
    }
}

fn option_name(option: &str) -> &str {
    option.split(':').next().unwrap_or_default()
}

fn limit(mut dns: DnsConfig) -> DnsConfig {
    dns.servers.truncate(MAX_SERVERS);
    dns.searches.truncate(MAX_SEARCHES);
    dns.searches.retain(|search| search.len() <= MAX_DOMAIN_CHARS);
    while dns.searches.join(" ").len() > MAX_SEARCH_CHARS {
        dns.searches.pop();
    }
    dns
}

fn without_duplicates(list: Vec<String>) -> Vec<String> {
    let mut unique: Vec<String> = Vec::new();
    for text in list {
        if !unique.contains(&text) {
            unique.push(text);
        }
    }
    unique
}

/// The settings in a `resolv.conf`. Of several lines with search domains the last one counts.
pub fn parse_resolv_conf(text: &str) -> DnsConfig {
    let mut dns = DnsConfig::default();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        let mut fields = line.split_whitespace();
        match fields.next() {
            Some("nameserver") => dns.servers.extend(fields.next().map(str::to_owned)),
            Some("search") => {
                let domains = fields.filter(|domain| *domain != ".");
                dns.searches = domains
                    .map(|domain| domain.trim_end_matches('.').to_owned())
                    .collect();
            }
            Some("options") => {
                for option in fields {
                    dns.options.retain(|old| option_name(old) != option_name(option));
                    dns.options.push(option.to_owned());
                }
            }
            _ => {}
        }
    }
    dns
}
