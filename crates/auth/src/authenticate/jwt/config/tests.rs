//! AuthenticationConfigurations, valid and invalid.

use super::*;

const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n";

fn parse(text: &str) -> Result<AuthenticationConfig, String> {
    let disallowed = ["https://kubernetes.default.svc".to_owned()];
    AuthenticationConfig::parse(&format!("{HEAD}{text}"), &disallowed).map_err(|error| error.to_string())
}

#[track_caller]
fn check_error(text: &str, expected: &str) {
    assert_eq!(parse(text).unwrap_err(), expected);
}

/// A configuration of one authenticator with these further lines.
fn jwt(lines: &str) -> String {
    format!("jwt:\n- issuer: {{url: 'https://x', audiences: [a]}}\n{lines}")
}

const USERNAME: &str = "  claimMappings: {username: {claim: sub, prefix: ''}}\n";

#[test]
fn a_configuration_has_issuers_and_paths_of_anonymous_requests() {
    let config = parse(
        "jwt:
- issuer:
    url: https://x
    discoveryURL: https://y/.well-known/openid-configuration
    audiences: [a, b]
    audienceMatchPolicy: MatchAny
  claimValidationRules:
  - {claim: hd, requiredValue: example.com}
  claimMappings:
    username: {claim: sub, prefix: 'x:'}
    groups: {claim: roles, prefix: ''}
    uid: {claim: uid}
anonymous:
  enabled: true
  conditions:
  - path: /livez
",
    );
    let claim = |claim: &str, prefix: &str| PrefixedClaim {
        claim: claim.to_owned(),
        prefix: prefix.to_owned(),
    };
    let jwt = JwtConfig {
        issuer_url: "https://x".to_owned(),
        discovery_url: Some("https://y/.well-known/openid-configuration".to_owned()),
        certificate_authority: None,
        audiences: vec!["a".to_owned(), "b".to_owned()],
        username: claim("sub", "x:"),
        groups: Some(claim("roles", "")),
        uid: Some("uid".to_owned()),
        required_claims: vec![("hd".to_owned(), "example.com".to_owned())],
        ..JwtConfig::default()
    };
    let anonymous = AnonymousConfig {
        enabled: true,
        conditions: vec![AnonymousCondition {
            path: "/livez".to_owned(),
        }],
    };
    assert_eq!(
        config,
        Ok(AuthenticationConfig {
            jwt: vec![jwt],
            anonymous: Some(anonymous),
        })
    );
}

#[test]
fn an_empty_configuration_is_valid() {
    assert_eq!(parse(""), Ok(AuthenticationConfig::default()));
}

#[test]
fn expressions_are_compiled() {
    let mapped = |mappings: &str| jwt(&format!("  claimMappings: {mappings}"));
    let valid = "{username: {expression: claims.sub}, uid: {expression: claims.x}, extra: [{key: a.b/c, valueExpression: claims.x}]}";
    assert!(parse(&mapped(valid)).is_ok());
    check_error(
        &mapped("{username: {expression: foo}}"),
        "jwt[0].claimMappings.username.expression: Invalid value: \"foo\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')\n | foo\n | ^",
    );
    check_error(
        &mapped("{username: {expression: claims.sub, prefix: x}}"),
        r#"jwt[0].claimMappings.username.prefix: Invalid value: "x": may not be specified when expression is set"#,
    );
    check_error(
        &mapped("{username: {expression: claims.email}}"),
        r#"jwt[0].claimMappings.username.expression: Invalid value: "claims.email": claims.email_verified must be used in claimMappings.username.expression or claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in claimMappings.username.expression"#,
    );
    let verified = format!(
        "{}\n  claimValidationRules: [{{expression: 'claims.?email_verified.orValue(true) == true'}}]",
        mapped("{username: {expression: claims.email}}")
    );
    assert!(parse(&verified).is_ok());
    check_error(
        &mapped("{username: {expression: claims.sub}, extra: [{key: foo, valueExpression: claims.x}]}"),
        r#"jwt[0].claimMappings.extra[0].key: Invalid value: "foo": must be a domain-prefixed path (such as "acme.io/foo")"#,
    );
    check_error(
        &mapped(
            "{username: {expression: claims.sub}, extra: [{key: a.k8s.io/x, valueExpression: claims.x}]}",
        ),
        r#"jwt[0].claimMappings.extra[0].key: Invalid value: "a.k8s.io/x": k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use"#,
    );
}

#[test]
fn rules_evaluate_to_bool() {
    check_error(
        &jwt(&format!(
            "{USERNAME}  claimValidationRules: [{{expression: claims.x}}]"
        )),
        r#"jwt[0].claimValidationRules[0].expression: Invalid value: "claims.x": must evaluate to bool"#,
    );
    check_error(
        &jwt(&format!(
            "{USERNAME}  userValidationRules: [{{expression: 'user.username'}}]"
        )),
        r#"jwt[0].userValidationRules[0].expression: Invalid value: "user.username": must evaluate to bool"#,
    );
    check_error(
        &jwt(&format!(
            "{USERNAME}  userValidationRules: [{{expression: 'true'}}, {{expression: 'true'}}, {{}}]"
        )),
        "[jwt[0].userValidationRules[1].expression: Duplicate value: \"true\", jwt[0].userValidationRules[2].expression: Required value]",
    );
}

#[test]
fn issuers_are_validated() {
    let issuer = |issuer: &str| format!("jwt:\n- issuer: {issuer}\n{USERNAME}");
    check_error(
        &issuer("{url: 'http://x', audiences: [a]}"),
        r#"jwt[0].issuer.url: Invalid value: "http://x": URL scheme must be https"#,
    );
    check_error(
        &issuer("{url: 'https://x'}"),
        "jwt[0].issuer.audiences: Required value: at least one jwt[0].issuer.audiences is required",
    );
    check_error(
        &issuer("{url: 'https://kubernetes.default.svc', audiences: [a]}"),
        r#"jwt[0].issuer.url: Invalid value: "https://kubernetes.default.svc": URL must not overlap with disallowed issuers: [https://kubernetes.default.svc]"#,
    );
    check_error(
        &issuer("{url: 'https://x', audiences: [a, b]}"),
        r#"jwt[0].issuer.audienceMatchPolicy: Invalid value: "": audienceMatchPolicy must be MatchAny for multiple audiences"#,
    );
}

#[test]
fn a_claim_needs_a_prefix_and_a_user_name_a_claim() {
    check_error(
        &jwt("  claimMappings: {username: {claim: sub}}"),
        "jwt[0].claimMappings.username.prefix: Required value: prefix is required when claim is set. It can be set to an empty string to disable prefixing",
    );
    check_error(
        &jwt(""),
        "jwt[0].claimMappings.username: Required value: claim or expression is required",
    );
}

#[test]
fn other_kinds_and_unknown_fields_are_rejected() {
    let other = AuthenticationConfig::parse("apiVersion: v1\nkind: Pod", &[]).unwrap_err();
    assert_eq!(
        other.to_string(),
        r#"no kind "Pod" is registered for version "v1""#
    );
    let unknown = parse("jwts: []").unwrap_err();
    assert!(unknown.contains("unknown field `jwts`"), "{unknown}");
}
