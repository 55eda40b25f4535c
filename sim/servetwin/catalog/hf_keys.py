"""The keys of Hugging Face configurations: which are read, which change nothing here, and which cannot be priced.

A key that is in none of these lists is named in a note of the model, so that nothing is wrong silently; one that
speaks of experts is refused, because a mixture that is read as a dense model is wrong by a multiple.
"""

from __future__ import annotations

from servetwin.catalog.fields import Fields


def _words(text: str) -> list[str]:
    return text.split()


#: Other names of the shapes, in configurations older than the common ones.
ALIASES = {
    "n_embd": "hidden_size", "d_model": "hidden_size", "n_layer": "num_hidden_layers", "n_layers": "num_hidden_layers",
    "num_layers": "num_hidden_layers", "n_head": "num_attention_heads", "n_heads": "num_attention_heads",
    "num_heads": "num_attention_heads", "n_inner": "intermediate_size", "ffn_hidden_size": "intermediate_size",
    "num_kv_heads": "num_key_value_heads", "n_head_kv": "num_key_value_heads", "multi_query_group_num":
    "num_key_value_heads", "n_positions": "max_position_embeddings", "seq_length": "max_position_embeddings",
    "max_seq_len": "max_position_embeddings", "max_seq_length": "max_position_embeddings",
    "max_sequence_length": "max_position_embeddings", "model_max_length": "max_position_embeddings",
    "padded_vocab_size": "vocab_size", "dtype": "torch_dtype",
    "conv_kernel": "mamba_d_conv", "expand": "mamba_expand", "time_step_rank": "mamba_dt_rank",
    "mamba_head_dim": "mamba_d_head", "n_groups": "mamba_n_groups",
}  # fmt: skip

#: Keys that some reader of this package looks at.
_READ = frozenset(
    _words(
        """
        architectures model_type text_config vision_config quantization_config _name_or_path
        num_hidden_layers hidden_size vocab_size tie_word_embeddings torch_dtype max_position_embeddings
        is_encoder_decoder num_attention_heads num_key_value_heads head_dim attn_output_gate kv_lora_rank
        q_lora_rank qk_nope_head_dim qk_rope_head_dim v_head_dim index_topk index_n_heads index_head_dim
        sliding_window use_sliding_window max_window_layers layer_types sliding_window_pattern
        attention_chunk_size no_rope_layers intermediate_size intermediate_size_mlp ffn_dim n_routed_experts
        num_local_experts num_experts num_experts_per_tok experts_per_token num_experts_per_token
        moe_intermediate_size shared_expert_intermediate_size shared_intermediate_size
        moe_shared_expert_intermediate_size n_shared_experts num_shared_experts first_k_dense_replace
        mlp_only_layers moe_layer_freq interleave_moe_layer_step decoder_sparse_step moe_layers
        expert_layer_period expert_layer_offset linear_num_value_heads linear_num_key_heads
        linear_key_head_dim linear_value_head_dim linear_conv_kernel_dim full_attention_interval
        linear_attn_config attn_type_list mamba_ssm_dtype mamba_n_heads mamba_d_head mamba_d_state
        mamba_n_groups mamba_d_conv mamba_expand mamba_num_heads mamba_dt_rank ssm_state_size state_size
        attn_layer_indices attn_layer_period
        attn_layer_offset hybrid_override_pattern num_nextn_predict_layers mtp_num_hidden_layers
        indexer_types index_topk_freq index_skip_topk_offset mlp_layer_types
        word_embed_proj_dim multi_query new_decoder_architecture
        moe_num_experts moe_k moe_num_shared_experts moe_layer_start_index moe_layer_end_index moe_layer_interval
        """
    )
) | set(ALIASES)

#: Keys of training, sampling, tokens, numerics and positions: the shapes and the work of a step are the same.
_HARMLESS = frozenset(
    _words(
        """
        activation_function add_cross_attention add_bias_linear alibi
        apply_residual_connection_post_layernorm architecture attention_bias attention_dropout
        attention_multiplier attention_out_bias attn_config attn_logit_softcapping attn_pdrop
        attn_temperature_tuning attn_scale attn_implementation auto_map aux_loss_alpha aux_loss_coef
        begin_suppress_tokens bad_words_ids bias boi_token_index bos_token_id chunk_size_feed_forward
        classifier_dropout clip_qkv cross_attention_hidden_size decoder_start_token_id diversity_penalty
        do_layer_norm_before do_sample early_stopping embd_pdrop embedding_multiplier embed_dropout
        encoder_no_repeat_ngram_size enable_bias eoi_token_index eos_token_id ep_size
        exponential_decay_length_penalty final_logit_softcapping finetuning_task floor_scale
        for_llm_compressor forced_bos_token_id forced_eos_token_id gradient_checkpointing hidden_act
        hidden_activation hidden_dropout hidden_dropout_prob id2label ignore_index image_token_id
        image_token_index img_processor initial_context_length init_device initializer_factor
        initializer_range index_share_for_mtp_iteration is_decoder label2id language_model_only
        layer_norm_elementwise_affine
        layer_norm_eps layer_norm_epsilon layerdrop layernorm_epsilon length_penalty logit_scale
        logits_scaling mamba_conv_bias mamba_proj_bias mamba_rms_norm mamba_chunk_size mamba_hidden_act
        mamba_inner_layernorms chunk_size conv_use_bias use_conv_bias use_mamba_kernels time_step_floor
        time_step_limit time_step_max time_step_min time_step_init_scheme time_step_scale residual_in_fp32
        rescale_prenorm_residual max_length media_placeholder_token_id min_length mlp_bias
        moe_router_topk_scaling_factor mup_base_width mscale mtp_transformer_layers mtp_use_dedicated_embeddings
        n_group num_mtp_modules
        no_repeat_ngram_size no_rope_layer_interval norm_eps norm_epsilon norm_topk_prob num_beam_groups
        num_beams num_expert_group num_return_sequences original_max_position_embeddings output_attentions
        output_hidden_states output_past output_router_logits output_scores pad_token_id parallel_attn
        partial_rotary_factor prefix pretraining_tp problem_type pruned_heads qk_head_dim qk_layernorm
        qk_norm_type qkv_bias query_pre_attn_scalar reorder_and_upcast_attn remove_invalid_values
        repetition_penalty resid_pdrop residual_dropout residual_multiplier return_dict
        return_dict_in_generate rms_norm_eps rope_interleave indexer_rope_interleave rope_local_base_freq
        rope_parameters rope_pct rope_scaling rope_theta rope_type rotary_dim rotary_emb_base rotary_pct
        routed_scaling_factor router_aux_loss_coef router_jitter_noise router_z_loss_coef
        router_bias_update_speed scale_attention_by_inverse_layer_idx scale_attn_by_inverse_layer_idx
        scale_attn_weights scoring_func sep_token_id seq_aux summary_activation summary_first_dropout
        summary_proj_to_labels summary_type summary_use_proj suppress_tokens swiglu_limit swiglu_alpha
        task_specific_params temperature tf_legacy_loss tie_encoder_decoder tokenizer_class top_k top_p
        topk_group topk_method torchscript transformers_version typical_p unk_token_id use_bfloat16
        use_cache use_mtp use_parallel_residual use_qk_norm use_routing_bias use_bias use_qkv_bias
        use_rmsnorm use_unified_vision_chunk video_placeholder video_token_id vision_end_token_id
        vision_start_token_id vision_feature_layer vision_feature_select_strategy projector_hidden_act
        spatial_merge_size multimodal_projector_bias _attn_implementation _attn_implementation_autoset n_ctx
        use_grouped_gemm moe_router_dtype moe_aux_loss_coeff layernorm_full_attention_alpha
        layernorm_full_attention_beta layernorm_linear_attention_alpha layernorm_linear_attention_beta
        layernorm_mlp_alpha layernorm_mlp_beta postnorm shared_moe_mode use_conv_states rms_norm_epsilon
        full_attn_alpha_factor full_attn_beta_factor linear_attn_alpha_factor linear_attn_beta_factor
        mlp_alpha_factor mlp_beta_factor moe_router_activation_func moe_renormalize use_grouped_topk
        mla_use_nope num_key_value_groups mlp_hidden_act mamba_bias sliding_window_attn
        use_sliding_window_attn num_logits_to_keep
        moe_norm_min moe_capacity moe_gate moe_gate_act moe_use_aux_free moe_use_hard_gate moe_norm_gate_logits
        moe_all_to_all_dropout moe_dropout moe_multimodal_dispatch_use_allgather moe_aux_loss_coef
        moe_z_loss_coef moe_router_use_sigmoid moe_router_enable_expert_bias moe_router_score_function
        moe_router_load_balancing_type moe_grouped_gemm moe_implementation experts_implementation use_expert_bias
        use_moe norm_expert_weight moe_train_capacity_factor moe_eval_capacity_factor moe_min_capacity
        moe_token_dropping moe_eval_capacity_token_fraction output_expert_logits
        """
    )
)

#: Keys that change the work of a step in ways that are not modelled, with what they mean.
_REFUSED = {
    "block_configs": "layers that differ one by one",
    "num_kv_shared_layers": "layers that share the KV cache of other layers",
    "altup_num_inputs": "several streams of activations",
    "laurel_rank": "low-rank side paths",
    "hidden_size_per_layer_input": "embeddings of each layer",
    "cross_attention_layers": "attention to the output of another network",
    "swa_num_attention_heads": "windowed layers with heads of their own",
    "swa_head_dim": "windowed layers with heads of their own",
    "hybrid_layer_ids": "attention shared between layers",
    "compress_ratios": "a compressed KV cache",
    "sparse_attention_config": "sparse attention of a kind that is not known",
    "sparse_config": "sparse attention of a kind that is not known",
    "moba_config": "sparse attention by blocks",
    "conv_L_cache": "convolutions instead of attention",
    "hc_mult": "several residual streams (hyper-connections)",
    "index_kpool": "an indexer that pools its keys",
    "routed_expert_hidden_size": "experts in a space of their own width",
    "moe_latent_size": "experts in a space of their own width",
    "attn_res_block_size": "attention to the outputs of earlier layers",
    "mla_use_output_gate": "a gate on the output of latent attention",
    "attention_hidden_size": "recurrent layers of a kind that is not known",
    "use_residual": "a dense block beside the experts",
    "parallel_attn_mlp_res": "a dense block beside the experts",
}

#: Encoders and models of other things than text, which no engine of this kind serves token by token.
_NO_DECODERS = ("bert", "roberta", "t5", "whisper", "clip", "wav2vec2", "vit", "xlm-roberta", "deberta", "bart")

#: Types of which no key says what is not modelled where it has its default.
_REFUSED_TYPES = {"arctic": "a dense block beside the experts"}

_KNOWN_TYPES = frozenset(
    _words(
        """
        llama mistral mixtral qwen2 qwen2_moe qwen2_vl qwen2_5_vl qwen3 qwen3_moe qwen3_next qwen3_vl
        qwen3_vl_moe qwen3_5 qwen3_5_moe deepseek_v2 deepseek_v3 deepseek_v32 kimi_k2 kimi_k25 kimi_linear
        gpt_oss llama4 minimax minimax_m1 minimax_m2 minimax_text_01 glm glm4 glm4_moe glm_moe_dsa gemma
        gemma2 gemma3 phi phi3 phimoe opt gpt2 gpt_neox gpt_bigcode bloom falcon starcoder2 nemotron
        nemotron_h olmo olmo2 olmoe granite granitemoe granitemoehybrid granitemoeshared bamba jamba mamba
        mamba2 falcon_mamba cohere cohere2 internlm2 internlm3 ernie4_5 ernie4_5_moe dots1 exaone4 smollm3
        stablelm seed_oss mistral3 ministral3 pixtral baichuan arcee hunyuan_v1_dense yi stablelm_epoch
        aquila xverse
        """
    )
)


def renamed(fields: Fields) -> Fields:
    """The same mapping with its shapes under their common names, where a configuration has older ones."""
    data = dict(fields.raw())
    for old, new in ALIASES.items():
        if data.get(new) is None and data.get(old) is not None:
            data[new] = data[old]
    return Fields(data, fields.file, fields.path)


def refuse_unpriced(text: Fields, fields: Fields, model_type: str) -> None:
    """Refuse a configuration with a key that changes the work of a step and is not modelled.

    Raises:
        CatalogError: with the key, and what it means.
    """
    if fields.take("is_encoder_decoder", False) or text.take("is_encoder_decoder", False):
        raise fields.error("this model has an encoder, and only decoders are modelled", "is_encoder_decoder")
    if model_type in _NO_DECODERS:
        raise fields.error("this is no decoder of text, and nothing else is modelled", "model_type", found=model_type)
    if model_type in _REFUSED_TYPES:
        what = _REFUSED_TYPES[model_type]
        raise fields.error(f"this model has {what}, which is not modelled", "model_type", found=model_type)
    for key, what in _REFUSED.items():
        if not _off(text.raw().get(key)):
            raise text.error(f"this model has {what}, which is not modelled", key, found=text.take(key))
    for one in (text, fields):
        for key in _unknown(one):
            if "moe" in key.lower() or "expert" in key.lower():
                raise one.error(
                    "this says something about experts that is not known, so the model could not be priced",
                    key, found=one.take(key), hint="set it to null where it changes nothing of the work of a step",
                )  # fmt: skip


def key_notes(text: Fields, fields: Fields, model_type: str) -> list[str]:
    """Sentences that name what was not understood: the type of the model, and keys."""
    notes = []
    if model_type.removesuffix("_text") not in _KNOWN_TYPES:
        what = f"the model type {model_type!r} is" if model_type else "a configuration without model_type is"
        notes.append(f"{what} not known: it was read as a transformer like Llama")
    unknown = sorted({*_unknown(text), *_unknown(fields)})
    if unknown:
        notes.append(f"these keys of the configuration are not known and were not read: {', '.join(unknown)}")
    return notes


def _unknown(fields: Fields) -> list[str]:
    """The keys that nothing here reads, that are not known to change nothing, and that are not switched off."""
    known = _READ | _HARMLESS
    return [str(key) for key, value in fields.raw().items() if key not in known and not _off(value)]


def _off(value: object) -> bool:
    """Whether a value switches its key off: null, false, zero, empty."""
    return value is None or value is False or value in (0, "", [], {})
