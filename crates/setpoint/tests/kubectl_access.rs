//! Authentication and authorization, by kubectl.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster::{Cluster, Kubectl, manifest};

/// Rows: a command line, and the texts its output must contain.
type Rows<'a> = &'a [(&'a str, &'a [&'a str])];

fn api_only() -> Cluster {
    Cluster::new(&["--memory", "--nodes", "0", "--controllers", "none"])
}

/// Runs the rows in order. Every command must succeed and its output contain the row's texts.
#[track_caller]
fn check(kubectl: &Kubectl, rows: Rows<'_>) {
    let mut wrong = Vec::new();
    for (line, expected) in rows {
        let (code, stderr) = kubectl.outcome(line);
        let missing: Vec<_> = expected.iter().filter(|text| !stderr.contains(**text)).collect();
        if code != 0 || !missing.is_empty() {
            wrong.push(format!(
                "kubectl {line}: code {code}, without {missing:?}:\n{stderr}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn auth_whoami_and_can_i_report_user_and_permissions() {
    let cluster = api_only();
    let Some(kubectl) = cluster.kubectl() else { return };
    check(
        &kubectl,
        &[
            ("auth can-i create pods", &["yes"]),
            ("auth can-i * *", &["yes"]),
            ("auth can-i --list", &["Resources", "Verbs"]),
            ("auth whoami", &["Username"]),
            ("create serviceaccount robot", &["created"]),
            (
                "create role reader --verb=get,list --resource=configmaps",
                &["created"],
            ),
            (
                "create rolebinding reads --role=reader --serviceaccount=default:robot",
                &["created"],
            ),
            (
                "auth can-i get configmaps --as=system:serviceaccount:default:robot",
                &["yes"],
            ),
            (
                "get configmaps --as=system:serviceaccount:default:robot -o name",
                &[],
            ),
        ],
    );
    let (code, stderr) =
        kubectl.outcome("auth can-i delete configmaps --as=system:serviceaccount:default:robot");
    assert_eq!((code, stderr.trim()), (1, "no"));
    let stderr = kubectl.fail("get secrets --as=system:serviceaccount:default:robot");
    assert!(
        stderr.contains("(Forbidden)") && stderr.contains("cannot list resource \"secrets\""),
        "{stderr}"
    );
}

#[test]
fn a_created_token_authenticates_and_a_forged_one_does_not() {
    let cluster = api_only();
    let Some(kubectl) = cluster.kubectl() else { return };
    kubectl.run("create serviceaccount robot");
    let token = kubectl.run("create token robot --duration=10m");
    let token = token.trim();
    assert_eq!(token.matches('.').count(), 2, "{token}");
    let bare = kubectl.run("config view --raw -o jsonpath={.clusters[0].cluster.server}");
    let as_robot = |line: &str, token: &str| {
        let flags = format!(
            "{line} --server={bare} --insecure-skip-tls-verify --token={token} --kubeconfig=/dev/null"
        );
        kubectl.outcome(&flags)
    };
    let (code, stderr) = as_robot("auth whoami", token);
    assert!(
        code == 0 && stderr.contains("system:serviceaccount:default:robot"),
        "{stderr}"
    );
    let (code, stderr) = as_robot("get configmaps", token);
    assert!(code == 1 && stderr.contains("(Forbidden)"), "{stderr}");
    let forged = token.replacen('.', ".x", 1);
    let (code, stderr) = as_robot("get configmaps", &forged);
    assert!(code == 1 && stderr.contains("Unauthorized"), "{stderr}");
}

/// The files of a CertificateSigningRequest for a user, and of its private key.
fn write_csr(cluster: &Cluster, name: &str, signer: &str, (user, group): (&str, &str)) -> (String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(rcgen::DnType::OrganizationName, group);
    params.distinguished_name.push(rcgen::DnType::CommonName, user);
    let request = params.serialize_request(&key).unwrap().pem().unwrap();
    let document = format!(
        r#"{{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{{"name":"{name}"}},
        "spec":{{"signerName":"{signer}","usages":["digital signature","client auth"],"request":"{}"}}}}"#,
        STANDARD.encode(request)
    );
    let dir = cluster.dir.path();
    let key = manifest(dir, &format!("{name}.key"), &key.serialize_pem());
    (manifest(dir, &format!("{name}.json"), &document), key)
}

/// The value at a path of a Secret or a CertificateSigningRequest, once it is set.
fn at(kubectl: &Kubectl, object: &str, path: &str) -> Vec<u8> {
    kubectl.run(&format!("wait {object} --for=jsonpath={path} --timeout=60s"));
    let text = kubectl.run(&format!("get {object} -o jsonpath={path}"));
    STANDARD.decode(text.trim()).unwrap()
}

/// The user name that the server derives from this credential alone.
#[track_caller]
fn whoami(kubectl: Kubectl, shown: &str, expected: &[&str]) {
    let server = kubectl.run("config view --raw -o jsonpath={.clusters[0].cluster.server}");
    let bare = kubectl.with("KUBECONFIG", "/dev/null");
    let line = format!("--server={server} --insecure-skip-tls-verify {shown} auth whoami");
    check(&bare, &[(&line, expected)]);
}

#[test]
fn an_approved_certificate_authenticates() {
    let loops = "certificatesigningrequest-signing,certificatesigningrequest-approving";
    let cluster = Cluster::new(&["--memory", "--nodes", "0", "--controllers", loops]);
    let Some(kubectl) = cluster.kubectl() else { return };
    let client = "kubernetes.io/kube-apiserver-client";
    let (file, key) = write_csr(&cluster, "jane", client, ("jane", "team-a"));
    check(
        &kubectl,
        &[
            (&format!("apply -f {file}"), &["created"]),
            ("get csr jane", &[client, "Pending"]),
            ("certificate approve jane", &["approved"]),
        ],
    );
    let pem = at(&kubectl, "csr/jane", "{.status.certificate}");
    check(&kubectl, &[("get csr jane", &["Approved,Issued"])]);
    let certificate = manifest(cluster.dir.path(), "jane.crt", &String::from_utf8(pem).unwrap());
    let shown = format!("--client-certificate={certificate} --client-key={key}");
    whoami(kubectl, &shown, &["jane", "team-a", "system:authenticated"]);
}

#[test]
fn a_nodes_certificate_is_approved_automatically() {
    let loops = "certificatesigningrequest-signing,certificatesigningrequest-approving";
    let cluster = Cluster::new(&["--memory", "--nodes", "0", "--controllers", loops]);
    let Some(kubectl) = cluster.kubectl() else { return };
    let client = "kubernetes.io/kube-apiserver-client-kubelet";
    let node = ("system:node:n1", "system:nodes");
    let (file, _) = write_csr(&cluster, "n1", client, node);
    let role = "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient";
    let apply = format!("create -f {file} --as=system:node:n1 --as-group=system:nodes");
    check(
        &kubectl,
        &[
            (
                &format!("create clusterrolebinding renew --clusterrole={role} --group=system:nodes"),
                &["created"],
            ),
            (&apply, &["created"]),
            ("wait csr/n1 --for=condition=Approved --timeout=60s", &["met"]),
        ],
    );
    at(&kubectl, "csr/n1", "{.status.certificate}");
    check(
        &kubectl,
        &[(
            "get csr n1 -o jsonpath={.status.conditions[0].message}",
            &["Auto approving self kubelet client certificate after SubjectAccessReview."],
        )],
    );
}

#[test]
fn a_service_account_secret_gets_a_token_that_authenticates() {
    let cluster = Cluster::new(&[
        "--memory",
        "--nodes",
        "0",
        "--controllers",
        "serviceaccount-token",
    ]);
    let Some(kubectl) = cluster.kubectl() else { return };
    let secret = r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"robot-token",
        "annotations":{"kubernetes.io/service-account.name":"robot"}},"type":"kubernetes.io/service-account-token"}"#;
    let secret = manifest(cluster.dir.path(), "secret.json", secret);
    kubectl.run("create serviceaccount robot");
    kubectl.run(&format!("apply -f {secret}"));
    let token = String::from_utf8(at(&kubectl, "secret/robot-token", "{.data.token}")).unwrap();
    let shown = format!("--token={token}");
    whoami(kubectl, &shown, &["system:serviceaccount:default:robot"]);
}
