//! What each built-in signer signs. Pure.

use setpoint_x509::GeneralName;

use crate::certificates::request::CertificateRequest;

pub(super) const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
const LEGACY: &str = "kubernetes.io/legacy-unknown";

const NODES: &str = "system:nodes";
const NODE_PREFIX: &str = "system:node:";

/// Whether this controller signs for the signer.
pub(super) fn is_handled(signer: &str) -> bool {
    [KUBELET_CLIENT, CLIENT, KUBELET_SERVING, LEGACY].contains(&signer)
}

/// Why the signer rejects the request; the text goes into the request's condition.
pub(super) fn check(signer: &str, csr: &CertificateRequest, usages: &[String]) -> Result<(), String> {
    match signer {
        KUBELET_CLIENT => kubelet_client(csr, usages),
        KUBELET_SERVING => kubelet_serving(csr, usages),
        CLIENT => client_usages(usages),
        _ => Ok(()),
    }
}

/// A kubelet's client certificate for the API server.
pub(super) fn kubelet_client(csr: &CertificateRequest, usages: &[String]) -> Result<(), String> {
    of_nodes(csr)?;
    match csr.names.first() {
        None => {}
        Some(GeneralName::Dns(_)) => return Err("DNS subjectAltNames are not allowed".to_owned()),
        Some(GeneralName::Email(_)) => return Err("Email subjectAltNames are not allowed".to_owned()),
        Some(GeneralName::Address(_)) => return Err("IP subjectAltNames are not allowed".to_owned()),
        Some(GeneralName::Uri(_)) => return Err("URI subjectAltNames are not allowed".to_owned()),
    }
    of_one_node(csr)?;
    exact_usages(usages, "client auth")
}

/// A kubelet's serving certificate.
fn kubelet_serving(csr: &CertificateRequest, usages: &[String]) -> Result<(), String> {
    of_nodes(csr)?;
    let has = |is: fn(&GeneralName) -> bool| csr.names.iter().any(is);
    if !has(|name| matches!(name, GeneralName::Dns(_) | GeneralName::Address(_))) {
        return Err("DNS or IP subjectAltName is required".to_owned());
    }
    if has(|name| matches!(name, GeneralName::Email(_))) {
        return Err("Email subjectAltNames are not allowed".to_owned());
    }
    if has(|name| matches!(name, GeneralName::Uri(_))) {
        return Err("URI subjectAltNames are not allowed".to_owned());
    }
    exact_usages(usages, "server auth")?;
    of_one_node(csr)
}

fn of_nodes(csr: &CertificateRequest) -> Result<(), String> {
    match csr.organizations == [NODES] {
        true => Ok(()),
        false => Err("subject organization is not system:nodes".to_owned()),
    }
}

fn of_one_node(csr: &CertificateRequest) -> Result<(), String> {
    match csr.common_name.starts_with(NODE_PREFIX) {
        true => Ok(()),
        false => Err("subject common name does not begin with system:node:".to_owned()),
    }
}

/// Exactly these usages; `key encipherment` is optional, since not every key algorithm supports it.
fn exact_usages(usages: &[String], auth: &str) -> Result<(), String> {
    let required = |usage: &str| usages.iter().any(|own| own == usage);
    let allowed = |usage: &String| [auth, "digital signature", "key encipherment"].contains(&usage.as_str());
    match required(auth) && required("digital signature") && usages.iter().all(allowed) {
        true => Ok(()),
        false => {
            let mut all = [auth, "digital signature", "key encipherment"];
            all.sort_unstable();
            Err(format!("usages did not match [{}]", all.join(" ")))
        }
    }
}

fn client_usages(usages: &[String]) -> Result<(), String> {
    let allowed =
        |usage: &&String| !["digital signature", "key encipherment", "client auth"].contains(&usage.as_str());
    if let Some(usage) = usages.iter().find(allowed) {
        return Err(format!("invalid usage for client certificate: {usage}"));
    }
    match usages.iter().any(|usage| usage == "client auth") {
        true => Ok(()),
        false => Err("missing required usage for client certificate: client auth".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USAGES: &str = "digital signature,key encipherment,client auth";
    const SERVING: &str = "digital signature,server auth";

    #[track_caller]
    fn check_row(signer: &str, who: (&str, &str), name: Option<GeneralName>, usages: &str, expected: &str) {
        let (common_name, organizations) = who;
        let csr = CertificateRequest {
            common_name: common_name.to_owned(),
            organizations: organizations.split(',').map(str::to_owned).collect(),
            names: name.into_iter().collect(),
            ..CertificateRequest::default()
        };
        let usages: Vec<String> = usages.split(',').map(str::to_owned).collect();
        let found = check(signer, &csr, &usages).err().unwrap_or_default();
        assert_eq!(found, expected);
    }

    #[test]
    fn the_client_certificate_of_a_node_is_for_that_node_only() {
        let node = ("system:node:a", "system:nodes");
        let dns = Some(GeneralName::Dns("a".to_owned()));
        let no_dns = "DNS subjectAltNames are not allowed";
        check_row(KUBELET_CLIENT, node, None, USAGES, "");
        check_row(KUBELET_CLIENT, node, None, "digital signature,client auth", "");
        check_row(KUBELET_CLIENT, node, dns, USAGES, no_dns);
        let other = "subject organization is not system:nodes";
        check_row(
            KUBELET_CLIENT,
            ("system:node:a", "system:masters"),
            None,
            USAGES,
            other,
        );
        check_row(
            KUBELET_CLIENT,
            ("system:node:a", "system:nodes,x"),
            None,
            USAGES,
            other,
        );
        let name = "subject common name does not begin with system:node:";
        check_row(KUBELET_CLIENT, ("jane", "system:nodes"), None, USAGES, name);
        let usages = "usages did not match [client auth digital signature key encipherment]";
        check_row(KUBELET_CLIENT, node, None, SERVING, usages);
    }

    #[test]
    fn the_serving_certificate_of_a_node_has_addresses() {
        let node = ("system:node:a", "system:nodes");
        let address = Some(GeneralName::Address(vec![10, 0, 0, 1]));
        check_row(KUBELET_SERVING, node, address, SERVING, "");
        check_row(
            KUBELET_SERVING,
            node,
            None,
            SERVING,
            "DNS or IP subjectAltName is required",
        );
    }

    #[test]
    fn a_client_certificate_is_for_clients() {
        let jane = ("jane", "team");
        check_row(CLIENT, jane, None, "client auth", "");
        check_row(
            CLIENT,
            jane,
            None,
            "client auth,server auth",
            "invalid usage for client certificate: server auth",
        );
        check_row(
            CLIENT,
            jane,
            None,
            "digital signature",
            "missing required usage for client certificate: client auth",
        );
    }

    #[test]
    fn the_oldest_signer_signs_anything() {
        check_row(LEGACY, ("x", "y"), None, "server auth", "");
    }
}
