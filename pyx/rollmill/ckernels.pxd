# The C headers, declared for Cython. Contracts and units are in the headers.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef extern from "rollmill/rollmill.h" nogil:
    const char *RML_VERSION
    const uint32_t RML_ABI_VERSION

    # status.h
    ctypedef enum rml_status:
        RML_OK
        RML_EINVAL
        RML_ENOMEM
        RML_EABI
        RML_EACTION
        RML_EENV
        RML_EINTERRUPTED
        RML_ENONFINITE
    const char *rml_status_text(rml_status status)

    # isa.h
    ctypedef enum rml_isa:
        RML_ISA_AUTO
        RML_ISA_BASE
        RML_ISA_V3
        RML_ISA_V4
    rml_isa rml_isa_resolve(rml_isa isa)

    # blas.h
    ctypedef struct rml_blas:
        void (*saxpy)(int *n, float *a, float *x, int *incx, float *y, int *incy) noexcept nogil
    const rml_blas *rml_blas_reference()

    # rng.h
    ctypedef enum rml_stream:
        RML_STREAM_NOISE
        RML_STREAM_NOISE_INDEX
        RML_STREAM_INIT
        RML_STREAM_ENV_RESET
        RML_STREAM_ENV_STEP
        RML_STREAM_ENV_LAYOUT
        RML_STREAM_ACTION
        RML_STREAM_ACTION_NOISE
        RML_STREAM_EXPLORE
        RML_STREAM_REPLAY
        RML_STREAM_EVALUATION
    void rml_philox(uint32_t *out_4, uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2,
                    uint32_t c3)
    void rml_rng_block(uint32_t *out_4, uint64_t key, rml_stream stream, uint32_t item,
                       uint32_t iteration, uint64_t block)
    uint64_t rml_rng_derive(uint64_t key, uint32_t kind)
    rml_status rml_normal_fill(float *normal_k, size_t k, uint64_t key, rml_stream stream,
                               uint32_t item, uint32_t iteration, uint64_t start, rml_isa isa)

    # noise.h
    const uint64_t RML_NOISE_SIZE_MAX
    ctypedef struct rml_noise:
        uint64_t key
        uint64_t size
        const float *table_k
    rml_status rml_noise_fill(float *noise_k, size_t k, const rml_noise *noise, uint64_t start,
                              rml_isa isa)
    rml_status rml_noise_index(uint64_t *index, const rml_noise *noise, uint64_t key,
                               uint32_t pair, uint32_t iteration, size_t d)
    rml_status rml_noise_perturb(float *plus_d, float *minus_d, const float *theta_d, size_t d,
                                 const rml_noise *noise, uint64_t index, float stdev, rml_isa isa)

    # env.h
    ctypedef enum rml_dtype:
        RML_UINT8
        RML_INT32
        RML_INT64
        RML_FLOAT32
        RML_FLOAT64
    ctypedef enum rml_space_kind:
        RML_DISCRETE
        RML_BOX
    ctypedef struct rml_space:
        int32_t kind
        int32_t dtype
        int64_t n
        int32_t axes
        int64_t shape[4]
        const double *low
        const double *high
    enum:
        RML_TERMINATED
        RML_TRUNCATED
    ctypedef struct rml_batch:
        size_t n
        size_t begin
        size_t end
        const uint8_t *mask_n
        const uint64_t *key_n
        const uint32_t *id_n
        const uint32_t *episode_n
        const uint32_t *elapsed_n
        void *state
        const void *action_na
        void *obs_no
        double *reward_n
        uint8_t *flags_n
    ctypedef struct rml_env:
        uint32_t abi_version
        uint32_t struct_size
        const char *name
        rml_space observation
        rml_space action
        uint32_t max_episode_steps
        uint32_t reserved
        size_t state_size
        const void *context
        rml_status (*reset)(const rml_env *env, const rml_batch *batch) noexcept nogil
        rml_status (*step)(const rml_env *env, const rml_batch *batch) noexcept nogil
        rml_status (*mask)(const rml_env *env, const rml_batch *batch,
                           uint8_t *mask_na) noexcept nogil
        rml_status (*render)(const rml_env *env, const rml_batch *batch, char *text, size_t size,
                             size_t *length) noexcept nogil
        rml_status (*save)(const rml_env *env, const rml_batch *batch,
                           void *bytes) noexcept nogil
        rml_status (*load)(const rml_env *env, const rml_batch *batch,
                           const void *bytes) noexcept nogil
    ctypedef const rml_env *(*rml_env_factory)() noexcept nogil
    rml_status rml_env_check(const rml_env *env, const char **why)
    size_t rml_dtype_size(int32_t dtype)
    size_t rml_space_size(const rml_space *space)

    # maze.h
    ctypedef struct rml_maze:
        uint32_t rows
        uint32_t columns
        uint32_t start
        uint32_t goal
    rml_status rml_maze_init(rml_maze *maze, rml_env *env, uint32_t rows, uint32_t columns,
                             uint32_t start, uint32_t goal, uint32_t max_episode_steps)

    # mujoco.h
    ctypedef enum rml_mujoco_task:
        RML_MUJOCO_SWIMMER
        RML_MUJOCO_HALF_CHEETAH
        RML_MUJOCO_HOPPER
        RML_MUJOCO_WALKER2D
        RML_MUJOCO_ANT
        RML_MUJOCO_HUMANOID
        RML_MUJOCO_HUMANOID_STANDUP
        RML_MUJOCO_REACHER
        RML_MUJOCO_PUSHER
        RML_MUJOCO_PENDULUM
        RML_MUJOCO_DOUBLE_PENDULUM
    ctypedef enum rml_mujoco_array:
        RML_MUJOCO_QPOS
        RML_MUJOCO_QVEL
        RML_MUJOCO_CTRL
        RML_MUJOCO_XPOS
        RML_MUJOCO_XIPOS
        RML_MUJOCO_SITE_XPOS
        RML_MUJOCO_CINERT
        RML_MUJOCO_CVEL
        RML_MUJOCO_QFRC_ACTUATOR
        RML_MUJOCO_QFRC_CONSTRAINT
        RML_MUJOCO_CFRC_EXT
        RML_MUJOCO_ARRAYS
    ctypedef enum rml_mujoco_map:
        RML_MUJOCO_COPY
        RML_MUJOCO_CLIP
        RML_MUJOCO_COS
        RML_MUJOCO_SIN
        RML_MUJOCO_DIFFERENCE
    enum:
        RML_MUJOCO_SEGMENTS
        RML_MUJOCO_BODIES
    ctypedef struct rml_mujoco_data:
        void *data
        double *array_a[11]
        uint32_t taken
    ctypedef struct rml_simulator:
        const void *model
        void (*step)(const void *model, void *data) noexcept nogil
        void (*forward)(const void *model, void *data) noexcept nogil
        void (*reset)(const void *model, void *data) noexcept nogil
        void (*post_constraint)(const void *model, void *data) noexcept nogil
        void (*get_state)(const void *model, const void *data, double *state,
                          int signature) noexcept nogil
        void (*set_state)(const void *model, void *data, const double *state,
                          int signature) noexcept nogil
        int signature
        size_t state_length
        size_t size_a[11]
        rml_mujoco_data *data_k
        size_t k
    ctypedef struct rml_mujoco_segment:
        int32_t array
        int32_t map
        size_t first
        size_t count
        size_t minus
        double low
        double high
    ctypedef struct rml_mujoco:
        rml_simulator *simulator
        const char *name
        int32_t task
        int32_t version
        uint32_t max_episode_steps
        uint32_t frame_skip
        rml_mujoco_segment segment_k[8]
        size_t segments
        const double *init_qpos
        const double *init_qvel
        const double *action_low
        const double *action_high
        const double *body_mass
        double total_mass
        double timestep
        double dt
        size_t body_3[3]
        double forward_reward_weight
        double ctrl_cost_weight
        double contact_cost_weight
        double healthy_reward
        double reward_near_weight
        double reward_dist_weight
        double healthy_z_2[2]
        double healthy_angle_2[2]
        double healthy_state_2[2]
        double contact_force_2[2]
        double contact_cost_2[2]
        double reset_noise_scale
        int32_t terminate_when_unhealthy
        int32_t contact_cost
    rml_status rml_mujoco_init(rml_mujoco *mujoco, rml_env *env, const char **why)
    rml_status rml_mujoco_place(const rml_env *env, const rml_batch *batch, const double *qpos,
                                const double *qvel)
    rml_status rml_mujoco_read(double *qpos, double *qvel, const rml_env *env,
                               const rml_batch *batch)

    # vector.h
    ctypedef enum rml_autoreset:
        RML_AUTORESET_NEXT_STEP
        RML_AUTORESET_SAME_STEP
        RML_AUTORESET_DISABLED
    ctypedef struct rml_vector:
        const rml_env *env
        size_t n
        int32_t autoreset
        int32_t reserved
        void *state
        uint64_t *key_n
        uint32_t *id_n
        uint32_t *episode_n
        uint32_t *elapsed_n
        uint8_t *done_n
        uint8_t *mask_n
        double *return_n
    rml_status rml_vector_reset(rml_vector *vector, const uint8_t *mask_n, const uint8_t *fresh_n,
                                void *obs_no)
    rml_status rml_vector_step(rml_vector *vector, const void *action_na, void *obs_no,
                               double *reward_n, uint8_t *flags_n, void *final_no,
                               double *end_return_n, uint32_t *end_length_n, size_t *bad)

    # policy.h
    enum:
        RML_POLICY_LAYERS
        RML_POLICY_WIDTH
        RML_SAMPLE_MAX
    ctypedef enum rml_activation:
        RML_TANH
        RML_RELU
    ctypedef struct rml_policy:
        uint32_t layers
        int32_t activation
        uint32_t width[9]
        size_t d
    rml_status rml_policy_init(rml_policy *policy, uint32_t layers, const uint32_t *width,
                               rml_activation activation)
    rml_status rml_policy_fill(float *theta_d, const rml_policy *policy, uint64_t key, rml_isa isa)
    size_t rml_policy_scratch(const rml_policy *policy)
    rml_status rml_policy_eval(float *out_na, const rml_policy *policy, const float *theta_d,
                               const float *x_no, const int64_t *index_n, size_t n, void *scratch,
                               rml_isa isa)
    rml_status rml_policy_eval_members(float *out_ka, const rml_policy *policy,
                                       const float *theta_md, const float *x_mo,
                                       const int64_t *index_m, const int32_t *member_k, size_t k,
                                       void *scratch, rml_isa isa)
    uint32_t rml_policy_argmax(const float *logit_a, size_t n)
    uint32_t rml_policy_sample(const float *logit_a, size_t n, float unit)
    void rml_tanh_eval(float *y_n, const float *x_n, size_t n, rml_isa isa)

    # stats.h
    void rml_stats_push(double *stats, const double *x_o, size_t o)
    void rml_stats_merge(double *a, const double *b, size_t o)
    void rml_stats_freeze(double *mean_o, double *scale_o, const double *stats, size_t o)

    # rollout.h
    ctypedef struct rml_rollout:
        const rml_env *env
        const rml_policy *policy
        const rml_noise *noise
        const double *mean_o
        const double *scale_o
        const int *stop
        uint64_t key
        double gamma
        double reward_offset
        float noise_stdev
        float action_noise_stdev
        uint32_t iteration
        uint32_t max_episode_steps
        int32_t sample
        int32_t isa
        int32_t filter
    ctypedef struct rml_pair:
        uint64_t noise_index
        double return_2[2]
        double fitness_2[2]
        uint32_t length_2[2]
        uint32_t pair
        int32_t status
    ctypedef struct rml_episode:
        double return_sum
        double fitness
        uint32_t length
        int32_t flags
        int32_t status
        uint32_t episode
    size_t rml_rollout_scratch(const rml_rollout *rollout)
    rml_status rml_rollout_check(const rml_rollout *rollout, const char **why)
    rml_status rml_rollout_eval_pairs(rml_pair *pair_p, double *stats_us, size_t *done,
                                      const rml_rollout *rollout, const float *theta_d,
                                      uint32_t first_pair, size_t p, size_t unit_pairs,
                                      void *scratch)
    rml_status rml_rollout_eval_episodes(rml_episode *episode_e, size_t *done,
                                         const rml_rollout *rollout, const float *theta_d,
                                         uint32_t first, size_t e, void *scratch)

    # es.h
    enum:
        RML_ES_BLOCK
        RML_ES_TILE
    rml_status rml_es_rank(float *rank_n, const double *value_n, size_t n, uint32_t *order_n)
    size_t rml_es_scratch(size_t p)
    rml_status rml_es_noise_sum(float *sum_d, size_t begin, size_t end, size_t d,
                                const rml_noise *noise, const uint64_t *index_p,
                                const float *weight_p, size_t p, const rml_blas *blas,
                                void *scratch, rml_isa isa)

    # optim.h
    rml_status rml_optim_adam(float *theta_d, float *m_d, float *v_d, const float *gradient_d,
                              size_t d, uint64_t t, double stepsize, double beta1, double beta2,
                              double epsilon)
    rml_status rml_optim_adamw(float *theta_d, float *m_d, float *v_d, const float *gradient_d,
                               size_t d, uint64_t t, double stepsize, double beta1, double beta2,
                               double epsilon, double weight_decay)
    rml_status rml_optim_clipup(float *theta_d, float *v_d, const float *gradient_d, size_t d,
                                double stepsize, double momentum, double max_speed)
    rml_status rml_optim_sgd(float *theta_d, float *v_d, const float *gradient_d, size_t d,
                             double stepsize, double momentum)
