//! The objects of a bootstrap token, with kubeadm's names: pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};
use setpoint_api::{ApiVerb, Gvr};

const RBAC: &str = "rbac.authorization.k8s.io";
/// The group of the users of tokens that kubeadm and this command create.
const TOKEN_GROUP: &str = "system:bootstrappers:kubeadm:default-node-token";
/// The role, in kube-public, of those who may read the cluster's information.
const INFO_ROLE: &str = "kubeadm:bootstrap-signer-clusterinfo";

/// An object, and where it is created.
#[derive(Debug)]
pub(super) struct ObjectAt {
    pub(super) resource: Gvr,
    pub(super) namespace: &'static str,
    pub(super) body: Value,
}

/// A bootstrap token.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) id: String,
    pub(super) secret: String,
    pub(super) expiration: Timestamp,
}

impl Token {
    /// The Secret that the API server authenticates the token by.
    pub(super) fn secret(&self) -> ObjectAt {
        let body = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": format!("bootstrap-token-{}", self.id) },
            "type": "bootstrap.kubernetes.io/token",
            "stringData": {
                "token-id": self.id, "token-secret": self.secret, "expiration": self.expiration.to_string(),
                "usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true",
                "auth-extra-groups": TOKEN_GROUP,
            },
        });
        ObjectAt {
            resource: Gvr::new("", "v1", "secrets"),
            namespace: "kube-system",
            body,
        }
    }
}

/// The bindings by which a node with a token gets its certificate, and renews it.
pub(super) fn permissions() -> Vec<ObjectAt> {
    let approve = "system:certificates.k8s.io:certificatesigningrequests";
    let bindings = [
        (
            "kubeadm:kubelet-bootstrap",
            "system:node-bootstrapper".to_owned(),
            TOKEN_GROUP,
        ),
        (
            "kubeadm:node-autoapprove-bootstrap",
            format!("{approve}:nodeclient"),
            TOKEN_GROUP,
        ),
        (
            "kubeadm:node-autoapprove-certificate-rotation",
            format!("{approve}:selfnodeclient"),
            "system:nodes",
        ),
    ];
    let binding = |(name, role, group): (&str, String, &str)| ObjectAt {
        resource: Gvr::new(RBAC, "v1", "clusterrolebindings"),
        namespace: "",
        body: json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": { "name": name },
            "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": role },
            "subjects": [{ "apiGroup": RBAC, "kind": "Group", "name": group }],
        }),
    };
    bindings.map(binding).into()
}

/// The cluster's information, which all users may read, anonymous ones too: its address and its CA.
pub(super) fn cluster_info(server: &str, authority: &[u8]) -> [ObjectAt; 3] {
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "contexts": null, "current-context": "", "users": null,
        "clusters": [{ "name": "", "cluster": {
            "server": server, "certificate-authority-data": STANDARD.encode(authority),
        } }],
    });
    let at = |resource: Gvr, body: Value| ObjectAt {
        resource,
        namespace: "kube-public",
        body,
    };
    [
        at(
            Gvr::new("", "v1", "configmaps"),
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "cluster-info" },
                "data": { "kubeconfig": kubeconfig.to_string() },
            }),
        ),
        at(
            Gvr::new(RBAC, "v1", "roles"),
            json!({
                "apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": { "name": INFO_ROLE },
                "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["cluster-info"], "verbs": [ApiVerb::Get] }],
            }),
        ),
        at(
            Gvr::new(RBAC, "v1", "rolebindings"),
            json!({
                "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": { "name": INFO_ROLE },
                "roleRef": { "apiGroup": RBAC, "kind": "Role", "name": INFO_ROLE },
                "subjects": [{ "apiGroup": RBAC, "kind": "User", "name": "system:anonymous" }],
            }),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_a_secret_that_authenticates_until_it_expires() {
        let token = Token {
            id: "abcdef".to_owned(),
            secret: "0123456789abcdef".to_owned(),
            expiration: Timestamp::from_second(0).unwrap(),
        };
        let secret = token.secret();
        assert_eq!(secret.body["metadata"]["name"], "bootstrap-token-abcdef");
        assert_eq!(secret.body["stringData"]["expiration"], "1970-01-01T00:00:00Z");
        assert_eq!(
            secret.body["stringData"]["usage-bootstrap-authentication"],
            "true"
        );
    }

    #[test]
    fn the_cluster_info_has_the_address_and_the_ca() {
        let [info, ..] = cluster_info("https://192.0.2.1:6443", b"CA");
        let kubeconfig: Value =
            serde_json::from_str(info.body["data"]["kubeconfig"].as_str().unwrap()).unwrap();
        let cluster = &kubeconfig["clusters"][0]["cluster"];
        assert_eq!(cluster["server"], "https://192.0.2.1:6443");
        assert_eq!(cluster["certificate-authority-data"], "Q0E=");
    }
}
