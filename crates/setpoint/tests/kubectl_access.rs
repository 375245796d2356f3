//! Who one is and what one may, as kubectl shows it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use cluster::{Cluster, Kubectl};

/// Rows: a line that is typed, and what its output has in it.
type Rows<'a> = &'a [(&'a str, &'a [&'a str])];

fn api_only() -> Cluster {
    Cluster::new(&["--memory", "--nodes", "0", "--controllers", "none"])
}

/// Every line must succeed and print what its row says, in order.
#[track_caller]
fn check(kubectl: &Kubectl, rows: Rows<'_>) {
    let mut wrong = Vec::new();
    for (line, wanted) in rows {
        let (code, told) = kubectl.outcome(line);
        let missing: Vec<_> = wanted.iter().filter(|part| !told.contains(**part)).collect();
        if code != 0 || !missing.is_empty() {
            wrong.push(format!(
                "kubectl {line}: code {code}, without {missing:?}:\n{told}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn auth_says_who_one_is_and_what_one_may() {
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
    let (code, told) =
        kubectl.outcome("auth can-i delete configmaps --as=system:serviceaccount:default:robot");
    assert_eq!((code, told.trim()), (1, "no"));
    let told = kubectl.fail("get secrets --as=system:serviceaccount:default:robot");
    assert!(
        told.contains("(Forbidden)") && told.contains("cannot list resource \"secrets\""),
        "{told}"
    );
}

#[test]
fn a_created_token_opens_the_door_and_a_forged_one_does_not() {
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
    let (code, told) = as_robot("auth whoami", token);
    assert!(
        code == 0 && told.contains("system:serviceaccount:default:robot"),
        "{told}"
    );
    let (code, told) = as_robot("get configmaps", token);
    assert!(code == 1 && told.contains("(Forbidden)"), "{told}");
    let forged = token.replacen('.', ".x", 1);
    let (code, told) = as_robot("get configmaps", &forged);
    assert!(code == 1 && told.contains("Unauthorized"), "{told}");
}
