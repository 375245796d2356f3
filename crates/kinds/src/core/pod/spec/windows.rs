//! Windows security options.

use setpoint_schema::fields;
use setpoint_strategy::{FieldRef, name};

use super::all_containers;

const SPEC_BYTES: usize = 64 * 1024;
const DOMAIN_BYTES: usize = 256;
const USER_BYTES: usize = 104;

/// Validates the Windows options of a pod or a container.
pub(super) fn validate_options(options: &FieldRef<'_>) {
    if !options.is_set() {
        return;
    }
    let (gmsa_credential_spec_name, spec, user) = (
        options.at(fields::GMSA_CREDENTIAL_SPEC_NAME),
        options.at(fields::GMSA_CREDENTIAL_SPEC),
        options.at(fields::RUN_AS_USER_NAME),
    );
    if gmsa_credential_spec_name.is_set() {
        name::check(&gmsa_credential_spec_name, name::check_dns1123_subdomain);
    }
    match spec.find_str().map(str::len) {
        Some(0) => spec.invalid("gmsaCredentialSpec cannot be an empty string"),
        Some(bytes) if bytes > SPEC_BYTES => spec.invalid("gmsaCredentialSpec size must be under 64 KiB"),
        _ => {}
    }
    if user.is_set() {
        validate_user(&user);
    }
}

fn validate_user(user: &FieldRef<'_>) {
    let text = user.str();
    if text.is_empty() {
        return user.invalid("runAsUserName cannot be an empty string");
    }
    if text.chars().any(|char| char.is_ascii_control()) {
        return user.invalid("runAsUserName cannot contain control characters");
    }
    let (domain, user_name) = match text.split('\\').collect::<Vec<_>>().as_slice() {
        [user_name] => (None, *user_name),
        [domain, user_name] => (Some(*domain), *user_name),
        _ => return user.invalid("runAsUserName cannot contain more than one backslash"),
    };
    if domain.is_some_and(|domain| domain.len() >= DOMAIN_BYTES) {
        user.invalid("runAsUserName's Domain length must be under 256 characters");
    }
    if domain.is_some_and(|domain| !is_net_bios(domain) && !is_dns(domain)) {
        user.invalid("runAsUserName's Domain doesn't match the NetBios nor the DNS format");
    }
    if user_name.is_empty() {
        user.invalid("runAsUserName's User cannot be empty");
    } else if user_name.len() > USER_BYTES {
        user.invalid("runAsUserName's User length must not be longer than 104 characters");
    }
    if !user_name.is_empty() && user_name.chars().all(|char| matches!(char, '.' | ' ')) {
        user.invalid("runAsUserName's User cannot contain only periods or spaces");
    }
    if user_name.contains([
        '"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']',
    ]) {
        user.invalid("runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]");
    }
}

/// A NetBIOS name: at most fifteen characters that are not special in paths, and no leading dot.
fn is_net_bios(domain: &str) -> bool {
    let bad = |char: char| "\\/:*?\"<>|".contains(char);
    (1..=15).contains(&domain.chars().count()) && !domain.starts_with('.') && !domain.contains(bad)
}

/// A DNS name, in any case.
fn is_dns(domain: &str) -> bool {
    domain
        .to_ascii_lowercase()
        .split('.')
        .all(|word| name::check_dns1123_label(word).is_empty())
}

/// HostProcess: all containers of a pod have it or none, and it needs the host network.
pub(super) fn validate_host_process(spec: &FieldRef<'_>, allow_privileged: bool) {
    let of_pod = host_process(&spec.at(fields::SECURITY_CONTEXT));
    let (mut all, mut hosts) = (0, 0);
    for container in all_containers(spec) {
        all += 1;
        let context = container.at(fields::SECURITY_CONTEXT);
        let of_container = host_process(&context);
        if let (Some(pod), Some(container)) = (of_pod, of_container)
            && pod != container
        {
            let detail = format!("pod hostProcess value must be identical if both are specified, was {pod}");
            context
                .at(fields::WINDOWS_OPTIONS)
                .at(fields::HOST_PROCESS)
                .invalid(&detail);
        }
        hosts += usize::from(of_container.or(of_pod) == Some(true));
    }
    if hosts == 0 {
        return;
    }
    if hosts != all {
        spec.invalid_as(
            "",
            "If pod contains any hostProcess containers then all containers must be HostProcess containers",
        );
    }
    if !spec.at(fields::HOST_NETWORK).bool() {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        spec.at(fields::HOST_NETWORK).invalid(detail);
    }
    if !allow_privileged {
        spec.forbidden("hostProcess containers are disallowed by cluster policy");
    }
}

fn host_process(context: &FieldRef<'_>) -> Option<bool> {
    context
        .at(fields::WINDOWS_OPTIONS)
        .at(fields::HOST_PROCESS)
        .find_bool()
}
