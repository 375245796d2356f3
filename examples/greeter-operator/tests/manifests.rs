//! The manifests that the program prints.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[test]
fn the_manifests_have_the_crd_and_the_rbac_role() {
    let yaml = greeter_operator::manifests().unwrap();
    assert!(
        yaml.contains("name: greeters.example.com") && yaml.contains("configmaps"),
        "{yaml}"
    );
}
