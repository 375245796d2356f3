//! The recommended replicas of one metric. Pure.
//!
//! They are the current replicas times the ratio of the measured to the target value, rounded up; a ratio within the
//! tolerance changes nothing. Pods without metrics dampen the change: when scaling down they count as using all of
//! their request, when scaling up as using nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::horizontal_pod_autoscaler::views::{Pod, Rules, Spec};
use crate::pods::{Phase, Readiness};

/// A metric of one pod, in thousandths, with its time and window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) value: i64,
    pub(crate) at: Timestamp,
    pub(crate) window: SignedDuration,
}

/// Metrics of pods, by pod name.
pub(crate) type Samples = BTreeMap<String, Sample>;

/// The result of one metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Proposal {
    pub(crate) replicas: i32,
    pub(crate) reading: MetricReading,
}

/// The measured value, in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetricReading {
    Value(i64),
    Average(i64),
    /// In percent of the request.
    Utilization {
        percent: i32,
        average: i64,
    },
}

/// How far from one a ratio may be without effect, in each direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Tolerances {
    down: f64,
    up: f64,
}

/// The autoscalers' defaults, as kube-controller-manager's flags set them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The sync period.
    pub period: Duration,
    /// The default stabilization window for scaling down.
    pub downscale_stabilization: Duration,
    /// How far from one a ratio may be without effect.
    pub tolerance: f64,
    /// How long after a pod's start its CPU usage is ignored unless it is ready.
    pub cpu_initialization_period: Duration,
    /// A pod that became unready within this time of its start has never been ready.
    pub initial_readiness_delay: Duration,
}

/// The inputs of every metric's calculation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CalculatorInput<'a> {
    pub(crate) now: Timestamp,
    /// The replicas in the scale's spec and in its status.
    pub(crate) spec_replicas: i32,
    pub(crate) status_replicas: i32,
    pub(crate) pods: &'a [Pod],
    pub(crate) tolerances: Tolerances,
    pub(crate) settings: Settings,
}

/// The target value of each pod.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PodTarget<'a> {
    /// A percentage of the request of its containers, or of one of them.
    Utilization {
        percent: i32,
        resource: &'a str,
        container: Option<&'a str>,
    },
    /// An average value.
    Average(i64),
}

/// Pods grouped by what is known of them.
#[derive(Debug, Default)]
struct Groups<'a> {
    ready: usize,
    unready: BTreeSet<&'a str>,
    missing: BTreeSet<&'a str>,
    ignored: BTreeSet<&'a str>,
}

const NO_PODS: &str = "no pods returned by selector while calculating replica count";

/// The replicas for a metric of pods. With `cpu`, the usage of starting pods is ignored.
pub(crate) fn by_pods(
    input: &CalculatorInput<'_>,
    mut samples: Samples,
    pod_target: PodTarget<'_>,
    cpu: bool,
) -> Result<Proposal, String> {
    if input.pods.is_empty() {
        return Err(NO_PODS.to_owned());
    }
    let groups = group(input, &samples, cpu);
    samples.retain(|name, _| !groups.ignored.contains(&**name) && !groups.unready.contains(&**name));
    if samples.is_empty() {
        return Err("did not receive metrics for targeted pods (pods might be unready)".to_owned());
    }
    let requests = pod_target.requests(input.pods)?;
    let (ratio, reading) = pod_target.measure(&samples, &requests)?;
    let proposal = |replicas| Proposal { replicas, reading };
    let grows_with_unready = !groups.unready.is_empty() && ratio > 1.0;
    if !grows_with_unready && groups.missing.is_empty() {
        return Ok(match input.tolerances.covers(ratio) {
            true => proposal(input.spec_replicas),
            false => proposal(times(ratio, groups.ready)),
        });
    }
    let guess = |name: &str| {
        if ratio < 1.0 {
            pod_target.most(name, &requests)
        } else {
            0
        }
    };
    if ratio != 1.0 {
        let missing = groups.missing.iter();
        samples.extend(missing.map(|name| ((*name).to_owned(), Sample::guessed(guess(name), input.now))));
    }
    if grows_with_unready {
        let unready = groups.unready.iter();
        samples.extend(unready.map(|name| ((*name).to_owned(), Sample::guessed(0, input.now))));
    }
    let (guessed, _) = pod_target.measure(&samples, &requests)?;
    let turns = (ratio < 1.0 && guessed > 1.0) || (ratio > 1.0 && guessed < 1.0);
    if input.tolerances.covers(guessed) || turns {
        return Ok(proposal(input.spec_replicas));
    }
    let replicas = times(guessed, samples.len());
    let turns = (guessed < 1.0 && replicas > input.spec_replicas)
        || (guessed > 1.0 && replicas < input.spec_replicas);
    Ok(proposal(if turns { input.spec_replicas } else { replicas }))
}

/// The replicas for a metric with a total target value.
pub(crate) fn by_value(input: &CalculatorInput<'_>, usage: i64, target: i64) -> Result<Proposal, String> {
    let ratio = usage as f64 / target as f64;
    let reading = MetricReading::Value(usage);
    let replicas = if input.spec_replicas == 0 {
        ratio.ceil() as i32
    } else if input.tolerances.covers(ratio) {
        input.spec_replicas
    } else if input.pods.is_empty() {
        return Err(format!("unable to calculate ready pods: {NO_PODS}"));
    } else {
        times(ratio, input.pods.iter().filter(|pod| pod.is_ready()).count())
    };
    Ok(Proposal { replicas, reading })
}

/// The replicas for a metric with a target value per replica.
pub(crate) fn by_average(input: &CalculatorInput<'_>, usage: i64, target: i64) -> Proposal {
    let status_replicas = f64::from(input.status_replicas);
    let ratio = usage as f64 / (target as f64 * status_replicas);
    let replicas = match input.tolerances.covers(ratio) {
        true => input.status_replicas,
        false => (usage as f64 / target as f64).ceil() as i32,
    };
    let average = match usage {
        i64::MAX => usage,
        usage => (usage as f64 / status_replicas.max(1.0)).ceil() as i64,
    };
    let reading = MetricReading::Average(average);
    Proposal { replicas, reading }
}

fn times(ratio: f64, pods: usize) -> i32 {
    (ratio * pods as f64).ceil() as i32
}

fn group<'a>(input: &CalculatorInput<'a>, samples: &Samples, cpu: bool) -> Groups<'a> {
    let mut groups = Groups::default();
    for pod in input.pods {
        let name = pod.name();
        let phase = pod.pod.view().phase;
        match samples.get(name) {
            _ if pod.pod.is_deleting() || phase == Phase::Failed => groups.ignored.insert(name),
            _ if phase == Phase::Pending => groups.unready.insert(name),
            None => groups.missing.insert(name),
            Some(sample) if cpu && is_starting(input, pod, sample) => groups.unready.insert(name),
            Some(_) => {
                groups.ready += 1;
                true
            }
        };
    }
    groups
}

/// Whether the pod's CPU usage belongs to its start.
fn is_starting(input: &CalculatorInput<'_>, pod: &Pod, sample: &Sample) -> bool {
    let view = pod.pod.view();
    let Some(start) = view.started else { return true };
    let (is_not, since) = match view.readiness {
        Readiness::Absent => return true,
        Readiness::NotReady(since) => (true, since),
        Readiness::Ready(since) | Readiness::Unknown(since) => (false, since),
    };
    let after = |moment: Timestamp, by: Duration| moment.checked_add(by).unwrap_or(Timestamp::MAX);
    match after(start, input.settings.cpu_initialization_period) > input.now {
        true => is_not || sample.at < since.checked_add(sample.window).unwrap_or(Timestamp::MAX),
        false => is_not && after(start, input.settings.initial_readiness_delay) > since,
    }
}

// === impl Settings ===

/// kube-controller-manager's defaults.
impl Default for Settings {
    fn default() -> Self {
        Self {
            period: Duration::from_secs(15),
            downscale_stabilization: Duration::from_secs(300),
            tolerance: 0.1,
            cpu_initialization_period: Duration::from_secs(300),
            initial_readiness_delay: Duration::from_secs(30),
        }
    }
}

// === impl Sample ===

impl Sample {
    fn guessed(value: i64, at: Timestamp) -> Self {
        let window = SignedDuration::ZERO;
        Self { value, at, window }
    }
}

// === impl Tolerances ===

impl Tolerances {
    /// The tolerances of an autoscaler, or the default.
    pub(crate) fn of(spec: &Spec, fallback: f64) -> Self {
        let own = |rules: Option<&Rules>| {
            let tolerance = rules.and_then(|rules| rules.tolerance);
            tolerance.map_or(fallback, |tolerance| tolerance.0 as f64 / 1000.0)
        };
        let behavior = spec.behavior.as_ref();
        Self {
            down: own(behavior.map(|behavior| &behavior.scale_down)),
            up: own(behavior.map(|behavior| &behavior.scale_up)),
        }
    }

    fn covers(self, ratio: f64) -> bool {
        (1.0 - self.down..=1.0 + self.up).contains(&ratio)
    }
}

// === impl PodTarget ===

type Requests = BTreeMap<String, i64>;

impl PodTarget<'_> {
    /// The request of each pod, if the target needs it.
    fn requests(self, pods: &[Pod]) -> Result<Requests, String> {
        let Self::Utilization {
            resource, container, ..
        } = self
        else {
            return Ok(Requests::new());
        };
        let request = |pod: &Pod| Ok((pod.name().to_owned(), requested(pod, resource, container)?));
        pods.iter().map(request).collect()
    }

    /// The highest usage assumed for a pod without metrics.
    fn most(self, name: &str, requests: &Requests) -> i64 {
        match self {
            Self::Average(target) => target,
            Self::Utilization { percent, .. } => {
                let request = requests.get(name).copied().unwrap_or_default();
                request * i64::from(percent.max(100)) / 100
            }
        }
    }

    /// The ratio of the usage to the target, and the reading.
    fn measure(self, samples: &Samples, requests: &Requests) -> Result<(f64, MetricReading), String> {
        match self {
            Self::Average(target) => {
                let sum: i64 = samples.values().map(|sample| sample.value).sum();
                let average = sum / count(samples.len());
                Ok((average as f64 / target as f64, MetricReading::Average(average)))
            }
            Self::Utilization { percent: target, .. } => {
                let known = samples.iter();
                let known = known.filter_map(|(name, sample)| Some((sample.value, requests.get(name)?)));
                let (mut used, mut total_request, mut pods) = (0, 0, 0);
                known.for_each(|(value, request)| {
                    (used, total_request, pods) = (used + value, total_request + request, pods + 1);
                });
                if total_request == 0 {
                    return Err("no metrics returned matched known pods".to_owned());
                }
                let percent = i32::try_from(used * 100 / total_request).unwrap_or(i32::MAX);
                let average = used / count(pods);
                let reading = MetricReading::Utilization { percent, average };
                Ok((f64::from(percent) / f64::from(target), reading))
            }
        }
    }
}

fn count(pods: usize) -> i64 {
    i64::try_from(pods).unwrap_or(i64::MAX).max(1)
}

/// The request of a pod, or of one of its containers, for a resource. Pod-level requests take precedence over its
/// containers'.
fn requested(pod: &Pod, resource: &str, container: Option<&str>) -> Result<i64, String> {
    let (spec, name) = (&pod.requests.spec, pod.name());
    let sidecars = spec
        .init_containers
        .iter()
        .filter(|one| one.restart_policy == "Always");
    let mut containers = spec.containers.iter().chain(sidecars);
    if let Some(container_name) = container {
        let found = containers.find(|one| one.name == container_name);
        let found = found.ok_or_else(|| format!("container {container_name} not found in Pod {name}"))?;
        let request = found.resources.requests.get(resource);
        let missing =
            || format!("missing request for {resource} in container {container_name} of Pod {name}");
        return request.map(|request| request.0).ok_or_else(missing);
    }
    if !spec.resources.requests.is_empty() {
        let sum = || {
            containers
                .filter_map(|one| one.resources.requests.get(resource))
                .map(|one| one.0)
        };
        let request = spec.resources.requests.get(resource).map(|request| request.0);
        let request = request.or_else(|| sum().reduce(|sum, one| sum + one));
        return request.ok_or_else(|| format!("missing pod-level request for {resource} in Pod {name}"));
    }
    let mut sum = 0;
    for one in containers {
        let request = one.resources.requests.get(resource);
        let missing = || {
            format!(
                "missing request for {resource} in container {} of Pod {name}",
                one.name
            )
        };
        sum += request.ok_or_else(missing)?.0;
    }
    Ok(sum)
}

#[cfg(test)]
mod tests;
