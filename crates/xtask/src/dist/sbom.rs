//! The bill of materials of a binary, as CycloneDX 1.5: <https://cyclonedx.org/docs/1.5/json/>.
//!
//! Cargo resolves the features of the whole workspace together, so a package may be listed that only a test enables;
//! none is left out.

use anyhow::Result;
use serde_json::{Value, json};

use super::metadata::{Component, Package, Packages};

/// The bill of materials of the binary of a package.
pub(super) fn document(packages: &Packages, binary: &str) -> Result<Value> {
    let components = packages.components(binary)?;
    let is_binary = |component: &&Component<'_>| component.package.name == binary;
    let root: Vec<Value> = components.iter().filter(is_binary).map(component).collect();
    let others = components.iter().filter(|component| !is_binary(component));
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": root.first()},
        "components": others.map(component).collect::<Vec<Value>>(),
        "dependencies": components.iter().map(dependencies).collect::<Vec<Value>>(),
    }))
}

fn component(component: &Component<'_>) -> Value {
    let package = component.package;
    let mut value = json!({
        "type": if package.name == super::BINARY { "application" } else { "library" },
        "bom-ref": package.url(),
        "name": package.name,
        "version": package.version,
        "scope": if component.is_shipped { "required" } else { "excluded" },
        "purl": package.url(),
    });
    if let Some(description) = &package.description {
        value["description"] = description.trim().into();
    }
    if let Some(license) = &package.license {
        // Older packages separate alternatives by a slash.
        value["licenses"] = json!([{"expression": license.replace('/', " OR ")}]);
    }
    if let Some(checksum) = component.checksum {
        value["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    value
}

fn dependencies(component: &Component<'_>) -> Value {
    let urls = component.dependencies.iter().copied().map(Package::url);
    json!({"ref": component.package.url(), "dependsOn": urls.collect::<Vec<String>>()})
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = r#"
        [[package]]
        name = "serde"
        version = "1.0.0"
        checksum = "ab"
        [[package]]
        name = "setpoint"
        version = "0.1.0"
    "#;

    fn package(name: &str, version: &str, kind: &str) -> Value {
        let source = (name != "setpoint").then_some("registry");
        json!({"id": name, "name": name, "version": version, "license": "MIT/Apache-2.0", "description": null,
            "source": source, "targets": [{"kind": [kind]}]})
    }

    fn node(id: &str, dependencies: &[(&str, Value)]) -> Value {
        let dependency =
            |(package, kind): &(&str, Value)| json!({"pkg": package, "dep_kinds": [{"kind": kind}]});
        json!({"id": id, "deps": dependencies.iter().map(dependency).collect::<Vec<_>>()})
    }

    fn bill() -> Value {
        let packages = [
            package("setpoint", "0.1.0", "bin"),
            package("serde", "1.0.0", "lib"),
            package("derive", "1.0.0", "proc-macro"),
            package("syn", "2.0.0", "lib"),
            package("cc", "1.0.0", "lib"),
            package("tempfile", "3.0.0", "lib"),
        ];
        let normal = Value::Null;
        let nodes = [
            node(
                "setpoint",
                &[
                    ("serde", normal.clone()),
                    ("cc", json!("build")),
                    ("tempfile", json!("dev")),
                ],
            ),
            node("serde", &[("derive", normal.clone())]),
            node("derive", &[("syn", normal)]),
            node("syn", &[]),
            node("cc", &[]),
            node("tempfile", &[]),
        ];
        let metadata = json!({"packages": packages, "resolve": {"nodes": nodes}});
        let packages = Packages::parse(&metadata.to_string(), LOCK).unwrap();
        document(&packages, "setpoint").unwrap()
    }

    #[track_caller]
    fn check_scope(name: &str, scope: Option<&str>) {
        let bill = bill();
        let mut components = bill["components"].as_array().unwrap().iter();
        let found = components.find(|component| component["name"] == name);
        assert_eq!(found.map(|component| component["scope"].as_str().unwrap()), scope);
    }

    #[test]
    fn what_only_runs_during_the_build_is_marked_and_tests_are_left_out() {
        check_scope("serde", Some("required"));
        check_scope("derive", Some("excluded"));
        check_scope("syn", Some("excluded"));
        check_scope("cc", Some("excluded"));
        check_scope("tempfile", None);
    }

    #[test]
    fn a_component_has_its_address_license_and_checksum() {
        let bill = bill();
        assert_eq!(bill["metadata"]["component"]["purl"], "pkg:cargo/setpoint@0.1.0");
        let mut components = bill["components"].as_array().unwrap().iter();
        let serde = components.find(|component| component["name"] == "serde").unwrap();
        assert_eq!(serde["purl"], "pkg:cargo/serde@1.0.0");
        assert_eq!(serde["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(serde["hashes"][0]["content"], "ab");
    }

    #[test]
    fn every_dependency_is_a_component() {
        let bill = bill();
        let components = bill["components"].as_array().unwrap().iter();
        let mut known: Vec<&Value> = components.map(|component| &component["bom-ref"]).collect();
        known.push(&bill["metadata"]["component"]["bom-ref"]);
        for dependency in bill["dependencies"].as_array().unwrap() {
            for reference in dependency["dependsOn"].as_array().unwrap() {
                assert!(known.contains(&reference), "{reference}");
            }
        }
    }
}
