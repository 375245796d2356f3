//! The configuration of JWT authenticators: AuthenticationConfiguration of `apiserver.config.k8s.io`, which the
//! `--oidc-*` flags are converted to as well.
//!
//! The rules are those of `ValidateAuthenticationConfiguration` in Kubernetes.

use std::collections::HashSet;

use serde::Deserialize;
use setpoint_api::field::Errors;

use super::expressions::{self, ClaimExpressions};
use crate::authorize::rule::nullable_list;
use crate::config_file::{self, ConfigFileError};

const KIND: &str = "AuthenticationConfiguration";
const MAX_AUTHENTICATORS: usize = 64;

/// The authentication configuration of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthenticationConfig {
    pub jwt: Vec<JwtConfig>,
    /// Absent if the file leaves it to `--anonymous-auth`.
    pub anonymous: Option<AnonymousConfig>,
}

/// Whether anonymous requests are accepted, and for which paths.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnonymousConfig {
    pub enabled: bool,
    #[serde(default, deserialize_with = "nullable_list")]
    pub conditions: Vec<AnonymousCondition>,
}

/// A path that may be requested anonymously.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnonymousCondition {
    pub path: String,
}

/// One issuer of tokens, and how its claims become a user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JwtConfig {
    pub issuer_url: String,
    pub discovery_url: Option<String>,
    /// The CAs that verify the provider, PEM; those of the machine if absent.
    pub certificate_authority: Option<String>,
    pub audiences: Vec<String>,
    pub username: PrefixedClaim,
    pub groups: Option<PrefixedClaim>,
    pub uid: Option<String>,
    /// Claims with the values that they must have.
    pub required_claims: Vec<(String, String)>,
    /// Attributes of the user that expressions compute, and rules.
    pub expressions: ClaimExpressions,
}

/// A claim whose values get a prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrefixedClaim {
    pub claim: String,
    pub prefix: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConfigObject {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    #[serde(default, deserialize_with = "nullable_list")]
    jwt: Vec<JwtObject>,
    anonymous: Option<AnonymousConfig>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct JwtObject {
    #[serde(default)]
    issuer: IssuerObject,
    #[serde(default, deserialize_with = "nullable_list")]
    claim_validation_rules: Vec<ValidationRule>,
    #[serde(default)]
    claim_mappings: MappingsObject,
    #[serde(default, deserialize_with = "nullable_list")]
    user_validation_rules: Vec<ValidationRule>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct IssuerObject {
    url: String,
    #[serde(rename = "discoveryURL")]
    discovery_url: Option<String>,
    certificate_authority: Option<String>,
    #[serde(deserialize_with = "nullable_list")]
    audiences: Vec<String>,
    audience_match_policy: String,
    egress_selector_type: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct ValidationRule {
    pub(super) claim: String,
    pub(super) required_value: String,
    pub(super) expression: String,
    pub(super) message: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct MappingsObject {
    username: MappingObject,
    groups: MappingObject,
    uid: MappingObject,
    #[serde(deserialize_with = "nullable_list")]
    extra: Vec<ExtraObject>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct MappingObject {
    claim: String,
    prefix: Option<String>,
    expression: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct ExtraObject {
    pub(super) key: String,
    pub(super) value_expression: String,
}

// === impl AuthenticationConfig ===

impl AuthenticationConfig {
    /// Parses and validates a configuration file. The issuers of service account tokens may not be configured again.
    pub fn parse(text: &str, disallowed_issuers: &[String]) -> Result<Self, ConfigFileError> {
        let object: ConfigObject = config_file::parse(text, KIND)?;
        let errors = Errors::default();
        let jwt = convert_all(&object.jwt, &errors.at("jwt"));
        let config = Self {
            jwt,
            anonymous: object.anonymous,
        };
        config.validate(disallowed_issuers, &errors);
        config_file::finish(errors)?;
        Ok(config)
    }

    /// Validates a configuration that is made from flags.
    pub fn check(self, disallowed_issuers: &[String]) -> Result<Self, ConfigFileError> {
        let errors = Errors::default();
        self.validate(disallowed_issuers, &errors);
        config_file::finish(errors)?;
        Ok(self)
    }

    fn validate(&self, disallowed_issuers: &[String], errors: &Errors) {
        let (mut issuers, mut discoveries) = (HashSet::new(), HashSet::new());
        for (index, jwt) in self.jwt.iter().enumerate() {
            let issuer = errors.at("jwt").index(index).at("issuer");
            jwt.validate(disallowed_issuers, &issuer);
            if !issuers.insert(&jwt.issuer_url) {
                issuer.at("url").duplicate(jwt.issuer_url.as_str());
            }
            if let Some(url) = &jwt.discovery_url
                && !discoveries.insert(url)
            {
                issuer.at("discoveryURL").duplicate(url.as_str());
            }
        }
        if let Some(anonymous) = &self.anonymous
            && !anonymous.enabled
            && !anonymous.conditions.is_empty()
        {
            let detail = "enabled should be set to true when conditions are defined";
            let paths: Vec<&str> = anonymous.conditions.iter().map(|one| one.path.as_str()).collect();
            let at = errors.at("anonymous").at("conditions");
            at.invalid(serde_json::json!(paths), detail);
        }
    }
}

// === impl JwtConfig ===

impl JwtConfig {
    fn validate(&self, disallowed_issuers: &[String], errors: &Errors) {
        let at = errors.at("url");
        match self.issuer_url.as_str() {
            "" => at.required(""),
            url => {
                if disallowed_issuers.contains(&self.issuer_url) {
                    let all = disallowed_issuers.join(" ");
                    let detail = format!("URL must not overlap with disallowed issuers: [{all}]");
                    at.invalid(url, &detail);
                }
                validate_url(url, &at);
            }
        }
        if let Some(url) = &self.discovery_url {
            let at = errors.at("discoveryURL");
            if url.trim_end_matches('/') == self.issuer_url.trim_end_matches('/') {
                at.invalid(url.as_str(), "discoveryURL must be different from URL");
            }
            validate_url(url, &at);
        }
        let audiences = errors.at("audiences");
        if self.audiences.is_empty() {
            audiences.required(&format!("at least one {} is required", audiences.path()));
        }
        let mut seen = HashSet::new();
        for (index, audience) in self.audiences.iter().enumerate() {
            match audience.as_str() {
                "" => audiences.index(index).required(""),
                audience if !seen.insert(audience) => audiences.index(index).duplicate(audience),
                _ => {}
            }
        }
    }
}

fn validate_url(url: &str, errors: &Errors) {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    for (is_wrong, detail) in [
        (scheme != "https", "URL scheme must be https"),
        (
            authority.contains('@'),
            "URL must not contain a username or password",
        ),
        (url.contains('?'), "URL must not contain a query"),
        (url.contains('#'), "URL must not contain a fragment"),
    ] {
        if is_wrong {
            errors.invalid(url, detail);
        }
    }
}

fn convert_all(list: &[JwtObject], errors: &Errors) -> Vec<JwtConfig> {
    if list.len() > MAX_AUTHENTICATORS {
        errors.too_many(list.len(), MAX_AUTHENTICATORS);
        return Vec::new();
    }
    let convert = |(index, object): (usize, &JwtObject)| object.convert(&errors.index(index));
    list.iter().enumerate().map(convert).collect()
}

// === impl JwtObject ===

impl JwtObject {
    fn convert(&self, errors: &Errors) -> JwtConfig {
        self.issuer.validate(&errors.at("issuer"));
        let required_claims =
            required_claims(&self.claim_validation_rules, &errors.at("claimValidationRules"));
        let claim_rules = expressions::compile_claim_rules(
            &self.claim_validation_rules,
            &errors.at("claimValidationRules"),
        );
        let mappings = errors.at("claimMappings");
        let username = &self.claim_mappings.username;
        if username.claim.is_empty() && username.expression.is_empty() {
            mappings
                .at("username")
                .required("claim or expression is required");
        }
        let claim_expressions = ClaimExpressions {
            claim_rules,
            ..self.claim_mappings.compile(&mappings)
        };
        claim_expressions.validate_email(&mappings.at("username").at("expression"));
        let user_rules =
            expressions::compile_user_rules(&self.user_validation_rules, &errors.at("userValidationRules"));
        JwtConfig {
            issuer_url: self.issuer.url.clone(),
            discovery_url: non_empty(self.issuer.discovery_url.as_ref()),
            certificate_authority: non_empty(self.issuer.certificate_authority.as_ref()),
            audiences: self.issuer.audiences.clone(),
            username: username.convert(&mappings.at("username")).unwrap_or_default(),
            groups: self.claim_mappings.groups.convert(&mappings.at("groups")),
            uid: self.claim_mappings.uid.uid(&mappings.at("uid")),
            required_claims,
            expressions: ClaimExpressions {
                user_rules,
                ..claim_expressions
            },
        }
    }
}

impl MappingsObject {
    /// The expressions that compute attributes of the user.
    fn compile(&self, errors: &Errors) -> ClaimExpressions {
        let compile = |mapping: &MappingObject, field: &str| {
            let is_expression = mapping.claim.is_empty() && !mapping.expression.is_empty();
            let at = errors.at(field).at("expression");
            is_expression
                .then(|| expressions::compile_mapping(&mapping.expression, &at))
                .flatten()
        };
        ClaimExpressions {
            username: compile(&self.username, "username"),
            groups: compile(&self.groups, "groups"),
            uid: compile(&self.uid, "uid"),
            extra: expressions::compile_extra(&self.extra, &errors.at("extra")),
            ..ClaimExpressions::default()
        }
    }
}

impl IssuerObject {
    fn validate(&self, errors: &Errors) {
        let policy = self.audience_match_policy.as_str();
        let at = errors.at("audienceMatchPolicy");
        match self.audiences.len() {
            0 | 1 if !matches!(policy, "" | "MatchAny") => at.invalid(
                policy,
                "audienceMatchPolicy must be empty or MatchAny for single audience",
            ),
            2.. if policy != "MatchAny" => at.invalid(
                policy,
                "audienceMatchPolicy must be MatchAny for multiple audiences",
            ),
            _ => {}
        }
        if !self.egress_selector_type.is_empty() {
            errors
                .at("egressSelectorType")
                .forbidden("egress selectors are not supported");
        }
    }
}

impl MappingObject {
    /// The claim and its prefix; none if neither a claim nor an expression is set.
    fn convert(&self, errors: &Errors) -> Option<PrefixedClaim> {
        match (self.claim.is_empty(), self.expression.is_empty()) {
            (false, false) => errors.invalid("", "claim and expression can't both be set"),
            (true, false) => {
                if let Some(prefix) = &self.prefix {
                    let detail = "may not be specified when expression is set";
                    errors.at("prefix").invalid(prefix.as_str(), detail);
                }
            }
            (false, true) if self.prefix.is_none() => errors.at("prefix").required(
                "prefix is required when claim is set. It can be set to an empty string to disable prefixing",
            ),
            _ => {}
        }
        (!self.claim.is_empty()).then(|| PrefixedClaim {
            claim: self.claim.clone(),
            prefix: self.prefix.clone().unwrap_or_default(),
        })
    }

    fn uid(&self, errors: &Errors) -> Option<String> {
        if !self.claim.is_empty() && !self.expression.is_empty() {
            errors.invalid("", "claim and expression can't both be set");
        }
        non_empty(Some(&self.claim))
    }
}

fn required_claims(rules: &[ValidationRule], errors: &Errors) -> Vec<(String, String)> {
    let mut required: Vec<(String, String)> = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        let at = errors.index(index);
        match (rule.claim.is_empty(), rule.expression.is_empty()) {
            (false, false) => at.invalid(rule.claim.as_str(), "claim and expression can't both be set"),
            (true, true) => at.required("claim or expression is required"),
            (true, false) => {}
            (false, true) => {
                if !rule.message.is_empty() {
                    let message = at.at("message");
                    message.invalid(rule.message.as_str(), "may not be specified when claim is set");
                }
                if required.iter().any(|(claim, _)| *claim == rule.claim) {
                    at.at("claim").duplicate(rule.claim.as_str());
                }
                required.push((rule.claim.clone(), rule.required_value.clone()));
            }
        }
    }
    required
}

fn non_empty(text: Option<&String>) -> Option<String> {
    text.filter(|text| !text.is_empty()).cloned()
}

#[cfg(test)]
mod tests;
