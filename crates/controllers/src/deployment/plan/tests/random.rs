//! Random edits of a Deployment during its rollout, with pods that become available at random.

use proptest::prelude::*;

use super::*;

/// An edit of the Deployment between two steps.
#[derive(Debug, Clone, Copy)]
enum Edit {
    Image(u8),
    Replicas(i32),
    Paused(bool),
}

/// A Deployment, its sets, and pods that become available at random.
#[derive(Debug)]
struct Fixture {
    deployment: Deployment,
    sets: Vec<ReplicaSet>,
    /// How many sets have been created so far.
    created_sets: i64,
}

fn some_edit() -> impl Strategy<Value = Option<Edit>> {
    prop_oneof![
        12 => Just(None),
        2 => (0..4u8).prop_map(|image| Some(Edit::Image(image))),
        2 => (0..12i32).prop_map(|replicas| Some(Edit::Replicas(replicas))),
        1 => any::<bool>().prop_map(|paused| Some(Edit::Paused(paused))),
    ]
}

fn some_words() -> impl Strategy<Value = String> {
    let portion = prop_oneof![
        (0..5i32).prop_map(|count| count.to_string()),
        Just("25%".to_owned()),
        Just("100%".to_owned())
    ];
    let rolling = (portion.clone(), portion)
        .prop_map(|(surge, unavailable)| format!("surge={surge} unavailable={unavailable}"));
    let strategy = prop_oneof![4 => rolling, 1 => Just("recreate".to_owned())];
    (0..12i32, 0..3i32, strategy)
        .prop_map(|(replicas, history, strategy)| format!("replicas={replicas} history={history} {strategy}"))
}

impl Fixture {
    fn new(words: &str) -> Self {
        Self {
            deployment: deployment(words),
            sets: Vec::new(),
            created_sets: 0,
        }
    }

    fn edit(&mut self, edit: Edit) {
        let spec = &mut self.deployment.spec;
        match edit {
            Edit::Image(image) => {
                let containers = &mut spec.template.spec.as_mut().unwrap().containers;
                containers[0].image = Some(format!("image-{image}"));
            }
            Edit::Replicas(replicas) => spec.replicas = Some(replicas),
            Edit::Paused(paused) => spec.paused = Some(paused),
        }
        *self.deployment.metadata.generation.as_mut().unwrap() += 1;
    }

    /// The sum of the sets' desired replicas.
    fn desired_replicas(&self) -> i32 {
        self.sets.iter().map(replicas).sum()
    }

    /// The pods that are available and not about to be deleted.
    fn available(&self) -> i32 {
        self.sets
            .iter()
            .map(|set| available(set).min(replicas(set)))
            .sum()
    }

    fn plan(&self) -> Plan {
        let (_, olds) = sets::split(&self.deployment, &self.sets);
        let pods = |set: &ReplicaSet| set.status.as_ref().map_or(0, |status| status.replicas);
        plan(&self.deployment, &self.sets, || {
            olds.iter().any(|old| pods(old) > 0)
        })
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Nothing => {}
            Step::Create(mut set) => {
                self.created_sets += 1;
                let time = jiff::Timestamp::from_second(1_000_000 + self.created_sets).unwrap();
                set.metadata.creation_timestamp = Some(Time(time));
                set.status = Some(ReplicaSetStatus::default());
                self.sets.push(*set);
            }
            Step::Amend(set) => self.put(*set),
            Step::Resize(resized) => resized.into_iter().for_each(|(_, set)| self.put(set)),
            Step::Clean(excess_sets) => self.sets.retain(|set| {
                excess_sets
                    .iter()
                    .all(|gone| gone.metadata.name != set.metadata.name)
            }),
        }
    }

    fn put(&mut self, set: ReplicaSet) {
        let at = self
            .sets
            .iter()
            .position(|own| own.metadata.name == set.metadata.name);
        self.sets[at.unwrap()] = set;
    }

    /// Sets scale to their desired replicas, unavailable pods first; `luck` is how many more become available.
    fn live(&mut self, luck: i32) {
        for set in &mut self.sets {
            let desired_replicas = replicas(set);
            let status = set.status.get_or_insert_default();
            let up = status.available_replicas.unwrap_or(0);
            status.replicas = desired_replicas;
            status.available_replicas = Some((up + luck).min(desired_replicas));
        }
        self.write_status();
    }

    fn write_status(&mut self) {
        let (new, _) = sets::split(&self.deployment, &self.sets);
        let status = DeploymentStatus {
            replicas: Some(self.desired_replicas()),
            updated_replicas: Some(new.map_or(0, replicas)),
            available_replicas: Some(self.available()),
            observed_generation: self.deployment.metadata.generation,
            ..DeploymentStatus::default()
        };
        self.deployment.status = Some(status);
    }
}

/// No step exceeds the surge, and none deletes what must stay available.
fn check_step(before: &Fixture, plan: &Plan, after: &Fixture) -> Result<(), TestCaseError> {
    let bounds = bounds(&before.deployment);
    let max_pods = before.desired_replicas().max(bounds.max_pods());
    prop_assert!(
        after.desired_replicas() <= max_pods,
        "{} desired replicas: {}",
        after.desired_replicas(),
        shown(&plan.step)
    );
    let is_rolling = is_rolling(&before.deployment) && plan.status_mode == StatusMode::Rollout;
    let fewest = before.available().min(bounds.min_available());
    prop_assert!(
        !is_rolling || after.available() >= fewest,
        "{} pods are available: {}",
        after.available(),
        shown(&plan.step)
    );
    Ok(())
}

/// With the Recreate strategy no new pod exists while an old one does.
fn check_apart(fixture: &Fixture) -> Result<(), TestCaseError> {
    let with_pods = fixture.sets.iter().filter(|set| replicas(set) > 0);
    let is_paused = fixture.deployment.spec.paused == Some(true);
    prop_assert!(is_rolling(&fixture.deployment) || is_paused || with_pods.count() <= 1);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_rollout_stays_in_its_bounds_and_converges(
        words in some_words(),
        edits in prop::collection::vec(some_edit(), 0..60),
        luck in prop::collection::vec(0..4i32, 1..20),
    ) {
        let mut fixture = Fixture::new(&words);
        for round in 0..400 {
            if let Some(edit) = edits.get(round).copied().flatten() {
                fixture.edit(edit);
            }
            if round == edits.len() {
                fixture.edit(Edit::Paused(false));
            }
            let before = Fixture { deployment: fixture.deployment.clone(), sets: fixture.sets.clone(), created_sets: fixture.created_sets };
            let plan = fixture.plan();
            fixture.take(plan.step.clone());
            check_step(&before, &plan, &fixture)?;
            check_apart(&fixture)?;
            fixture.live(luck[round % luck.len()].max(i32::from(round > 200)));
        }
        prop_assert_eq!(shown(&fixture.plan().step), "nothing");
        let (new, olds) = sets::split(&fixture.deployment, &fixture.sets);
        let desired_replicas = fixture.deployment.spec.replicas.unwrap();
        prop_assert_eq!(new.map(replicas), Some(desired_replicas));
        prop_assert!(olds.iter().all(|old| replicas(old) == 0));
        let kept = fixture.deployment.spec.revision_history_limit.unwrap();
        prop_assert!(olds.len() <= usize::try_from(kept).unwrap(), "{} old sets", olds.len());
    }
}
