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
fn expressions_are_rejected() {
    for (lines, path) in [
        (
            "  claimMappings: {username: {expression: claims.sub}}",
            "claimMappings.username.expression",
        ),
        (
            "  claimMappings: {username: {claim: sub, prefix: ''}, extra: [{key: a/b, valueExpression: claims.x}]}",
            "claimMappings.extra",
        ),
    ] {
        let expected = format!("jwt[0].{path}: Forbidden: CEL expressions are not supported yet");
        check_error(&jwt(lines), &expected);
    }
    for rules in ["claimValidationRules", "userValidationRules"] {
        let text = jwt(&format!("{USERNAME}  {rules}: [{{expression: 'true'}}]"));
        let error = parse(&text).unwrap_err();
        assert!(error.contains("CEL expressions are not supported yet"), "{error}");
    }
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
