//! DefaultTolerationSeconds: a pod stays for five minutes on a node that is not ready or unreachable, unless it has its
//! own tolerations.

use setpoint_api::Status;
use setpoint_registry_api::Review;
use setpoint_schema::{Tree, fields};

use crate::chain::Plugin;
use crate::review;

const TAINTS: &[&str] = &["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
const EFFECT: &str = "NoExecute";
const SECONDS: i64 = 300;

/// Adds the default tolerations.
#[derive(Debug)]
pub(crate) struct DefaultTolerationSeconds;

impl Plugin for DefaultTolerationSeconds {
    fn name(&self) -> &'static str {
        "DefaultTolerationSeconds"
    }

    fn mutate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        if !review::is_resource(review, "", "pods") {
            return Ok(());
        }
        if let Some(pod) = review.object.as_deref_mut() {
            let spec = pod.child(fields::SPEC);
            let missing: Vec<&str> = TAINTS
                .iter()
                .copied()
                .filter(|taint| !tolerates(spec, taint))
                .collect();
            for taint in missing {
                review::push(spec, "tolerations", toleration(taint));
            }
        }
        Ok(())
    }
}

fn tolerates(spec: &Tree, taint: &str) -> bool {
    let text = |toleration: &Tree, field: &str| toleration.str_at(&[field]).unwrap_or_default().to_owned();
    spec.items(fields::TOLERATIONS).iter().any(|toleration| {
        let (key, effect) = (text(toleration, "key"), text(toleration, "effect"));
        (key.is_empty() || key == taint) && (effect.is_empty() || effect == EFFECT)
    })
}

fn toleration(taint: &str) -> Tree {
    let mut toleration = Tree::default();
    toleration.set(&[fields::KEY], taint);
    toleration.set(&[fields::OPERATOR], "Exists");
    toleration.set(&[fields::EFFECT], EFFECT);
    toleration.set(&[fields::TOLERATION_SECONDS], SECONDS);
    toleration
}
